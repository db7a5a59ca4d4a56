"""Train Keras models on published samples. Only this package and ``readers`` import TensorFlow.

fitting.py         a training run, from options to report, over batches that are resumable at any step
fit_options.py     training options
training_set.py    training days, their label and its positive rate
preparation.py     statistics of the training samples, computed before the first step; preprocessing left to the model
click_model.py     model with its preprocessing and recipe
models.py          logistic regression, FM, Wide & Deep, DeepFM over shared terms
loop.py            epochs, on one machine or several
checkpoints.py     checkpoints for resuming training
evaluation.py      AUC, log loss and calibration
scoring.py         predictions for the samples of a split
exporting.py       SavedModel for serialized examples
fit_report.py      training report
quiet.py           TensorFlow import without log messages
"""
