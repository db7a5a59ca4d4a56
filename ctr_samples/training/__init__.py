"""Trainer: Keras models over published samples. Only this package and ``readers`` import TensorFlow.

fitting.py         one training, from options to report
fit_options.py     the options of a training
training_set.py    days to train on, and days to evaluate on
preparation.py     statistics of the training samples, computed before the first step
train_batches.py   batches of training, and where to resume
click_model.py     model with its preparation and recipe
models/            logistic regression, FM, Wide & Deep, DeepFM over shared terms
model_steps.py     preprocessing left to the model
loop.py            epochs, on one machine or several
checkpoints.py     checkpoints to resume from
evaluation.py      AUC, log loss and calibration, with slices
scoring.py         predictions for the samples of a split
exporting.py       SavedModel for serialized examples
fit_report.py      outcome, for people and programs
quiet.py           TensorFlow without its log noise
"""
