//! `Operation`: a route of the API with its documentation. The router and the OpenAPI document are
//! built from the same list of operations, so they cannot differ.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::server_options::ServerState;

/// Creates the schema of a type, and adds the schemas that it refers to, to the document.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationMethod {
    Get,
    Post,
    Put,
    Delete,
}

impl OperationMethod {
    /// Returns the name of the method in an OpenAPI document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// A documented response.
#[derive(Clone, Debug)]
pub(crate) struct OperationResponse {
    pub(crate) status: StatusCode,
    pub(crate) description: &'static str,
    pub(crate) media_type: &'static str,
    /// Schema of the body. `None` for a response without a body or with a body that is not JSON.
    pub(crate) schema: Option<SchemaOf>,
}

/// A header that an operation reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationHeader {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// A route of the API with its documentation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: OperationMethod,
    /// Path with its parameters in braces, which is the syntax of both the router and OpenAPI.
    pub(crate) path: &'static str,
    /// Name of the operation in generated clients, such as `listRuns`.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) headers: Vec<OperationHeader>,
    pub(crate) body: Option<SchemaOf>,
    /// Description of a body that is a text.
    pub(crate) text_body: Option<&'static str>,
    pub(crate) responses: Vec<OperationResponse>,
    route: MethodRouter<ServerState>,
}

impl Operation {
    pub(crate) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(OperationMethod::Get, path, id, summary)
    }

    pub(crate) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(OperationMethod::Post, path, id, summary)
    }

    pub(crate) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(OperationMethod::Put, path, id, summary)
    }

    pub(crate) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new(OperationMethod::Delete, path, id, summary)
    }

    fn new(
        method: OperationMethod,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            id,
            tag: "",
            summary,
            query: None,
            headers: Vec::new(),
            body: None,
            text_body: None,
            responses: Vec::new(),
            route: MethodRouter::new(),
        }
    }

    /// Sets the handler.
    pub(crate) fn handler<H, T>(mut self, handler: H) -> Self
    where
        H: Handler<T, ServerState>,
        T: 'static,
    {
        self.route = on(self.method.filter(), handler);
        self
    }

    /// Documents the parameters of the query: the fields of `Q`.
    pub(crate) fn query<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(SchemaGenerator::subschema_for::<Q>);
        self
    }

    /// Documents a header.
    pub(crate) fn header(mut self, name: &'static str, description: &'static str) -> Self {
        self.headers.push(OperationHeader { name, description });
        self
    }

    /// Documents the JSON body of the request.
    pub(crate) fn body<B: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<B>);
        self
    }

    /// Documents a body that is a text.
    pub(crate) fn text_body(mut self, description: &'static str) -> Self {
        self.text_body = Some(description);
        self
    }

    /// Documents a response with a JSON body.
    pub(crate) fn returns<R: JsonSchema>(
        self,
        status: StatusCode,
        description: &'static str,
    ) -> Self {
        self.response(OperationResponse {
            status,
            description,
            media_type: "application/json",
            schema: Some(SchemaGenerator::subschema_for::<R>),
        })
    }

    /// Documents a response with a body of another media type, or without a body if the media type
    /// is empty.
    pub(crate) fn returns_other(
        self,
        status: StatusCode,
        description: &'static str,
        media_type: &'static str,
    ) -> Self {
        self.response(OperationResponse { status, description, media_type, schema: None })
    }

    fn response(mut self, response: OperationResponse) -> Self {
        self.responses.push(response);
        self
    }

    /// Sets the group of the operation in the document.
    pub(crate) fn tagged(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    /// Returns the names of the parameters in the path.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// Builds the router of all operations.
pub(crate) fn routes(operations: Vec<Operation>) -> Router<ServerState> {
    let mut router = Router::new();
    for operation in operations {
        router = router.route(operation.path, operation.route);
    }
    router
}
