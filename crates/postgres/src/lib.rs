//! Postgres backend: [`PostgresStore`] stores runs for programs on several machines.
//!
//! Programs depend on the crate `agentflow-sdk` and enable its feature `postgres`. It re-exports
//! these items in the module `agentflow::store`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod store;

pub use self::store::{PostgresStore, PostgresStoreBuilder};
