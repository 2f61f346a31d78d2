"""Membership attacks: was this record in the training data?

``attack`` says what an attack is, ``registry`` lists every attack by name, ``signals`` are the numbers that
attacks compare. Attacks on the target alone are in ``thresholds``, ``label_only``, ``boundary``,
``white_box`` and ``quantile``; attacks with reference models are in ``lira``, ``bavaria``,
``likelihood_ratio``, ``pairwise`` and ``shokri``, over ``reference_attack``.

``run`` of an attack narrows the view to what its adversary sees, scores the records, and joins the coin
afterwards.

A new attack is a module here and one line in ``registry`` ("To add an attack" in CONTRIBUTING.md).
"""
