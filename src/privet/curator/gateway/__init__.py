"""The gateway: HTTP in front of a curator. It has accounts, plans and the ledger, and cannot open the data.

*How a request goes*: ``transport`` bounds its size and writes the headers of every answer;
``authentication`` finds out who asks; ``interface`` (JSON) or ``privet.curator.pages`` reads the request;
``calls`` gives it to the service, within a time; ``refusals_http`` turns every refusal into one shape.
"""
