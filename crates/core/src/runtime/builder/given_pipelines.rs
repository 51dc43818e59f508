//! Workflows that are registered as pipelines: their graphs, and the agents and tools that they
//! contain.

use std::panic::Location;

use crate::pipeline::{Given, Pipeline};
use crate::runtime::builder::runtime_builder::RuntimeBuilder;
use crate::runtime::catalogue::catalogue_entry::Origin;
use crate::runtime::catalogue::graphs::RegisteredGraph;

impl RuntimeBuilder {
    /// Registers the workflow of a [pipeline](crate::pipeline) under a name. Agents and tools that
    /// the pipeline contains are registered under their own names. Agents and tools that it refers
    /// to by name may be registered before or after. The input is named `input`:
    /// `runtime.start_named("report", json!({"input": "rust"}))`.
    ///
    /// Errors in the pipeline are reported together, when the workflow is used and as a problem of
    /// the [`CatalogueReader::snapshot`](crate::runtime::CatalogueReader::snapshot).
    ///
    /// The middleware, limits and store of this builder apply to its runs.
    #[doc(alias = "to_app")]
    #[track_caller]
    pub fn pipeline(mut self, name: impl AsRef<str>, pipeline: impl Into<Pipeline>) -> Self {
        let (name, pipeline, origin) =
            (name.as_ref(), pipeline.into(), Origin::given(Location::caller()));
        for given in pipeline.given() {
            match given {
                Given::Agent(agent)
                    if !self.given.agents.iter().any(|(other, _)| other.is(&agent)) =>
                {
                    self.given.agents.push((agent, origin.clone()));
                }
                Given::Tool(tool) if !self.given.tools.iter().any(|(other, _)| other.is(&tool)) => {
                    self.given.tools.push((tool, origin.clone()));
                }
                Given::Agent(_) | Given::Tool(_) => {}
            }
        }
        let graphs = match pipeline.graphs(name) {
            Ok(graphs) => graphs.into_iter().map(RegisteredGraph::new).collect(),
            Err(error) => vec![RegisteredGraph::unmade(name, &error.to_string())],
        };
        self.given.graphs.extend(graphs.into_iter().map(|graph| (graph, origin.clone())));
        self
    }
}
