//! The builder of a runtime. [`RuntimeBuilder`] collects the settings and the named items, and
//! builds the `Host` that a [`Runtime`](crate::runtime::Runtime) refers to. It starts and opens
//! nothing; `lifecycle` checks the dependencies when a program boots.
//!
//! The files besides `runtime_builder` add methods to the builder: entries of a configuration file,
//! documents, and pipelines.

pub(crate) mod configuration;
#[cfg(feature = "documents")]
mod document_builder;
#[cfg(feature = "dynamic")]
mod given_pipelines;
pub(crate) mod runtime_builder;
