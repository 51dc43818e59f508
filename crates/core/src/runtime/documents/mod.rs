//! Documents in a runtime. `set` keeps the documents that are included in the program, registered
//! with the builder, or read from folders. `registered` creates their agents and registers their
//! graphs among the named items of the runtime.
//!
//! [`Documents`](documents_handle::Documents) is the public access: it reads and checks documents,
//! and reloads the folders (`reload`). A reload replaces the snapshot of named items. `versions`
//! stores the sources with which runs start, so that a resumed run continues with its version.
//!
//! Documents can also be saved in the store while the program runs: `save` and `stored_handle` for
//! the program, `caller_documents` for a caller. `stored_items` adds them to the named items,
//! `refresh` reads the changes of other processes, and `version_start` starts a certain version.

pub(crate) mod caller_documents;
pub(crate) mod documents_error;
pub(crate) mod documents_handle;
pub(crate) mod included_start;
pub(crate) mod refresh;
pub(crate) mod registered;
pub(crate) mod reload;
pub(crate) mod save;
pub(crate) mod set;
pub(crate) mod stored_handle;
pub(crate) mod stored_items;
pub(crate) mod version_start;
pub(crate) mod versions;
