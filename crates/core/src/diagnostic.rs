//! Diagnostics as data: the problems of documents, graphs, pipelines and names, each with a stable
//! code, a location, arguments and a suggestion. The sentence is rendered last.
//!
//! ```
//! use agentflow::document::Document;
//!
//! let error = Document::read("a.yaml", "id: a\nnodes: [{id: b, tool: c, args: {}}]").unwrap_err();
//! let problem = &error.problems()[0];
//! assert_eq!(problem.code().name(), "document.unknown-field");
//! assert_eq!(problem.argument("field").unwrap().as_str(), Some("args"));
//! assert_eq!((problem.line(), problem.column()), (2, 26));
//! ```

pub use agentflow_schema::diagnostic::{
    Argument, ArgumentKind, ArgumentValue, Code, Diagnostic, DiagnosticSubject, Excerpt,
    ExcerptKind, Location, Position, Severity, SourceSpan, SubjectKind, Suggestion,
};

/// Returns all codes, by area. The page of diagnostics lists them.
pub fn all_codes() -> Vec<Code> {
    let tables: &[&[Code]] = &[
        #[cfg(feature = "documents")]
        agentflow_schema::text_tree::codes::ALL,
        #[cfg(feature = "documents")]
        crate::document::document_codes::ALL,
        #[cfg(feature = "documents")]
        crate::document::export_codes::ALL,
        #[cfg(feature = "dynamic")]
        crate::pipeline::pipeline_codes::ALL,
        agentflow_schema::expression::expression_codes::ALL,
        agentflow_schema::template::template_codes::ALL,
        crate::workflow::graph_codes::ALL,
        crate::workflow::mapping_codes::ALL,
        crate::workflow::value_codes::ALL,
        crate::workflow::decision_codes::ALL,
        agentflow_schema::schema::schema_codes::ALL,
        crate::model::model_codes::ALL,
        crate::state::state_codes::ALL,
        #[cfg(feature = "dynamic")]
        crate::runtime::reference_codes::ALL,
    ];
    tables.concat()
}
