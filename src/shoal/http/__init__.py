"""HTTP without resources: protocol limits, routing, parameters, errors, rate limits and OpenAPI."""
