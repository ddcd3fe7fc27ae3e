//! Every digest the wires ask for, computed in one pass while bytes stream.
