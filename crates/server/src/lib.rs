//! Configuration, listeners, wiring, admin socket: one dewar process.
