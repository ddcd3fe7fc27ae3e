//! The verbs: put, get, head, list, copy, delete, multipart, rename, for every protocol.
