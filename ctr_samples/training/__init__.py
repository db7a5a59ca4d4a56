"""The trainer: models over published samples, in Keras. The only package besides ``readers`` that imports TensorFlow.

fitting.py         one training, from options to a report
fit_options.py     the options of a training
training_set.py    the days to train on and those to evaluate on
preparation.py     what is computed from the training samples before the first step
train_batches.py   the batches of training, and where to resume
click_model.py     a model with its preparation and its recipe
models/            logistic regression, FM, Wide & Deep, DeepFM over shared terms
model_steps.py     preprocessing that samples leave to the model
loop.py            epochs, on one machine or several
checkpoints.py     what a training resumes from
evaluation.py      AUC, log loss and calibration, with slices
scoring.py         a model over the samples of a split
exporting.py       a model that serves serialized examples
fit_report.py      the outcome, for people and programs
quiet.py           TensorFlow without its chatter
"""
