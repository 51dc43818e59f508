//! Registration of stores that are files. The crate of such a store registers a function that opens
//! a file, so that the configuration and the command line can name a file without depending on a
//! database.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use super::{Store, StoreError};

/// Opens the file of a store and creates it if it does not exist.
pub(crate) type OpenStoreFile =
    fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>>;

/// Registration of the program's file store, collected by the linker. At most one crate of a
/// program registers one.
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

/// Returns the function that opens the file of a store; `None` if the program has no such store.
pub fn open_store_file() -> Option<OpenStoreFile> {
    inventory::iter::<StoreFiles>.into_iter().next().map(|files| files.open)
}
