//! Documents in a runtime. `set` keeps the documents that are included in the program, registered
//! with the builder, or read from folders. `registered` creates their agents and registers their
//! graphs among the named items of the runtime.
//!
//! [`Documents`](documents_handle::Documents) is the public access: it reads and checks documents,
//! and reloads the folders (`reload`). A reload replaces the snapshot of named items. `versions`
//! stores the sources with which runs start, so that a resumed run continues with its version.

pub(crate) mod documents_handle;
pub(crate) mod included_start;
pub(crate) mod registered;
pub(crate) mod reload;
pub(crate) mod set;
pub(crate) mod versions;
