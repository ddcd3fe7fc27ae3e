//! The client side: load driver and tools that talk to any endpoint.
