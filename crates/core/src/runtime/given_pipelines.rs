//! Workflows that were given as pipelines: their graphs, and the agents and tools that they were made of. It makes no graph.

use std::panic::Location;

use super::catalogue_entry::Origin;
use super::graphs::GivenGraph;
use super::runtime_builder::RuntimeBuilder;
use crate::pipeline::{Given, Pipeline};

impl RuntimeBuilder {
    /// Makes the workflow of a [pipeline](crate::pipeline) known by a name. Agents and tools that it was made of are known by theirs;
    /// those that it names may be given before or after. Its input is `input`:
    /// `runtime.start_named("report", json!({"input": "rust"}))`.
    ///
    /// What is wrong with it is an error where the workflow is used, and a problem of the
    /// [`catalogue`](super::Runtime::catalogue): all of it at once.
    ///
    /// The middleware, the limits and the store of its runs are those of this builder.
    #[doc(alias = "to_app")]
    #[track_caller]
    pub fn pipeline(mut self, name: impl AsRef<str>, pipeline: impl Into<Pipeline>) -> Self {
        let (name, pipeline, origin) = (name.as_ref(), pipeline.into(), Origin::given(Location::caller()));
        for given in pipeline.given() {
            match given {
                Given::Agent(agent) if !self.given.agents.iter().any(|(other, _)| other.is(&agent)) => {
                    self.given.agents.push((agent, origin.clone()));
                }
                Given::Tool(tool) if !self.given.tools.iter().any(|(other, _)| other.is(&tool)) => {
                    self.given.tools.push((tool, origin.clone()));
                }
                Given::Agent(_) | Given::Tool(_) => {}
            }
        }
        let graphs = match pipeline.graphs(name) {
            Ok(graphs) => graphs.into_iter().map(GivenGraph::new).collect(),
            Err(error) => vec![GivenGraph::unmade(name, &error.to_string())],
        };
        self.given.graphs.extend(graphs.into_iter().map(|graph| (graph, origin.clone())));
        self
    }
}
