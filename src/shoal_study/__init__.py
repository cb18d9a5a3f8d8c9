"""Study of how evenly placement schemes spread names over machines."""
