"""Small, readable click models in Keras, built from a contract."""
