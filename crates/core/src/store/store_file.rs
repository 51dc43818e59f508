//! Stores in files: the crate of such a store registers how it opens one. The configuration and the command line name a file,
//! and depend on no database.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use super::{Store, StoreError};

/// Opens the file of a store, which is created if it does not exist.
pub(crate) type OpenStoreFile = fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>>;

/// The store of the program that is a file, collected by the linker. At most one crate of a program registers one.
#[doc(hidden)]
pub struct StoreFiles {
    /// Opens a file.
    pub open: OpenStoreFile,
}

inventory::collect!(StoreFiles);

impl fmt::Debug for StoreFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFiles").finish_non_exhaustive()
    }
}

/// Returns how the program opens the file of a store; `None` if it is built without such a store.
pub(crate) fn open_store_file() -> Option<OpenStoreFile> {
    inventory::iter::<StoreFiles>.into_iter().next().map(|files| files.open)
}
