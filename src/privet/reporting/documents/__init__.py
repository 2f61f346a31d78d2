"""Documents other than the page: report.json with its schema, the model card, and the evidence for an impact
assessment.

``plain_data`` turns facts into plain data; ``report_json``, ``model_card``, ``dpia``, ``evidence`` and
``cnil`` write it down in their forms.

A new document is a module here, and a line of ``_FORMS`` in ``reporting.report``.
"""
