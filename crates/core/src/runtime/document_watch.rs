//! [`DocumentWatch`] polls the files of a runtime's folders for changes and reloads them.

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::Runtime;
use super::document_reload::Reloaded;
use super::document_set::{DocumentSet, FileStamps};
use crate::document::{Document, FolderError};

/// Minimum polling interval.
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
    /// Polls the sizes and modification times of the documents in the runtime's
    /// [folders](super::RuntimeBuilder::document_folder) at the interval `every`, at least 100 ms.
    /// [Reloads](Self::reload_documents) all documents if one was changed, added or removed, and
    /// passes the result to `on_reload`. A change that preserves the size and time of a file is not
    /// noticed. The watch keeps the runtime alive until it is dropped.
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
            let Some(set) = runtime.host().part::<DocumentSet>() else { return };
            // The stamps of a folder that could not be listed differ, so its error is reported
            // once.
            let mut seen = set.loaded().stamps;
            loop {
                tokio::time::sleep(every).await;
                let folders = set.folders.clone();
                let look = tokio::task::spawn_blocking(move || {
                    folders.iter().map(|folder| stamps_of(folder)).collect()
                });
                let Ok(now) = look.await else { return };
                if now != seen && now != set.loaded().stamps {
                    on_reload(runtime.reload_documents().await);
                }
                seen = now;
            }
        }))
    }
}

/// Returns the paths, sizes and modification times of the documents in a folder.
pub(super) fn stamps_of(folder: &Path) -> <FileStamps as IntoIterator>::Item {
    let paths = Document::paths_in(folder).ok()?;
    let stamp = |path: std::path::PathBuf| {
        let about = std::fs::metadata(&path).ok()?;
        Some((path, about.len(), about.modified().ok()))
    };
    Some(paths.into_iter().filter_map(stamp).collect())
}
