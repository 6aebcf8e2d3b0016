"""Language modelling: next tokens, or span corruption."""
