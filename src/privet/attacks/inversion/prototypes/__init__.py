"""Class prototypes: a picture of what a model learnt of a class, by gradients or by confidences alone.

``priors`` says what the adversary expects of a picture, ``search`` draws, ``panel`` judges by classifiers
that the attack never touched.
"""
