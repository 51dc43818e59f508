//! Postgres backend: [`PostgresStore`] stores runs for programs on several machines.
//!
//! Programs depend on the crate `agentflow-sdk` and enable its feature `postgres`. It re-exports
//! these items in the module `agentflow::store`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod store;

use std::sync::Arc;

use agentflow_core::__private::{StoreOpener, inventory};

pub use self::store::{PostgresStore, PostgresStoreBuilder};

// Registers the function that connects to a URL, for configurations and the command line.
inventory::submit! {
    StoreOpener::Url(&["postgres", "postgresql"], |url| {
        Box::pin(async move { Ok(Arc::new(PostgresStore::connect(url).await?) as _) })
    })
}
