//! SQLite backends: [`SqliteStore`] stores runs, [`SqliteMemory`] stores memories.
//!
//! Programs depend on the crate `agentflow-sdk` and enable its feature `sqlite`. It re-exports
//! these items in the modules `agentflow::store` and `agentflow::memory`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod memory;
mod private_file;
mod store;

use std::sync::Arc;

use agentflow_core::__private::{StoreOpener, inventory};

pub use self::memory::SqliteMemory;
pub use self::store::{ArtifactCheck, SqliteStore, SqliteStoreBuilder, Synchronous};

// Registers the function that opens a store file, for configurations and the command line.
inventory::submit! {
    StoreOpener::File(|file| {
        Box::pin(async move { Ok(Arc::new(SqliteStore::open(file).await?) as _) })
    })
}
