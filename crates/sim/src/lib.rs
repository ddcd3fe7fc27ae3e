//! Test-only: models, actors, faults, checkers, seeds.
