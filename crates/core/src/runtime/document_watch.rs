//! `DocumentWatch`: looks from time to time whether the files of a runtime's folders have changed, and has them read again.
//! It reads no document.

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::Runtime;
use super::document_reload::Reloaded;
use super::document_set::{DocumentsOfRuntime, Stamps};
use crate::document::{Document, FolderError};

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(100);

/// Watches the folders of a runtime until it is dropped: see [`Runtime::watch_documents`].
#[derive(Debug)]
#[must_use = "dropping it ends the watching"]
pub struct DocumentWatch(JoinHandle<()>);

impl Drop for DocumentWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Runtime {
    /// Looks `every` so often, at least 100 ms apart, at the sizes and times of the documents in the runtime's
    /// [folders](super::RuntimeBuilder::document_folder), and [reads them again](Self::reload_documents) when one has changed,
    /// is new or is gone. `on_reload` is given what each reading did. A change that keeps a file's size and time is not
    /// noticed. The watch keeps the runtime until it is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn watch_documents(
        &self,
        every: Duration,
        mut on_reload: impl FnMut(Result<Reloaded, FolderError>) + Send + 'static,
    ) -> DocumentWatch {
        let (runtime, every) = (self.clone(), every.max(SHORTEST));
        DocumentWatch(tokio::spawn(async move {
            let Some(set) = runtime.host().part::<DocumentsOfRuntime>() else { return };
            // What could not be listed is not in what was loaded, and is reported once.
            let mut seen = set.loaded().stamps;
            loop {
                tokio::time::sleep(every).await;
                let folders = set.folders.clone();
                let look =
                    tokio::task::spawn_blocking(move || folders.iter().map(|folder| stamps_of(folder)).collect());
                let Ok(now) = look.await else { return };
                if now != seen && now != set.loaded().stamps {
                    on_reload(runtime.reload_documents().await);
                }
                seen = now;
            }
        }))
    }
}

/// Sizes and times of the documents in a folder.
pub(super) fn stamps_of(folder: &Path) -> <Stamps as IntoIterator>::Item {
    let paths = Document::paths_in(folder).ok()?;
    let stamp = |path: std::path::PathBuf| {
        let about = std::fs::metadata(&path).ok()?;
        Some((path, about.len(), about.modified().ok()))
    };
    Some(paths.into_iter().filter_map(stamp).collect())
}
