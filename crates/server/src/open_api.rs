//! Builds the OpenAPI 3.1 document from the list of operations.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::{Operation, OperationResponse};
use crate::problem::ProblemDocument;

/// Version of the specification: <https://spec.openapis.org/oas/v3.1.1.html>. Its schemas are JSON
/// Schema 2020-12.
const OPEN_API: &str = "3.1.1";

/// Builds the document.
pub(crate) fn open_api(operations: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<ProblemDocument>();
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        let documented = document(operation, &problem, &mut schemas);
        if let Value::Object(path) = path {
            path.insert(operation.method.as_str().to_owned(), documented);
        }
    }
    json!({
        "openapi": OPEN_API,
        "info": {
            "title": "agentflow",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Starts, follows and controls runs of agents and workflows.",
        },
        // Relative to the document, so that the server may be mounted below any path.
        "servers": [{"url": "../.."}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        // The empty requirement is for servers that do not authenticate their callers.
        "security": [{"bearer": []}, {}],
    })
}

fn document(operation: &Operation, problem: &Schema, schemas: &mut SchemaGenerator) -> Value {
    let mut parameters = Vec::new();
    for name in operation.path_parameters() {
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string"},
        }));
    }
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query(schemas), schemas));
    }
    for header in &operation.headers {
        parameters.push(json!({
            "name": header.name, "in": "header", "required": false,
            "description": header.description, "schema": {"type": "string"},
        }));
    }
    let mut responses = Map::new();
    for response in &operation.responses {
        responses.insert(response.status.as_str().to_owned(), described(response, schemas));
    }
    let problem = json!({
        "description": "The request was refused or failed. The body has a stable code.",
        "content": {"application/problem+json": {"schema": problem}},
    });
    responses.insert("default".to_owned(), problem);
    let mut documented = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(body) = operation.body {
        documented["requestBody"] = json!({
            "required": true, "content": {"application/json": {"schema": body(schemas)}},
        });
    }
    if let Some(description) = operation.text_body {
        let schema = json!({"schema": {"type": "string"}});
        documented["requestBody"] = json!({
            "required": true,
            "description": description,
            "content": {"application/yaml": schema, "application/json": schema, "text/plain": schema},
        });
    }
    documented
}

/// Returns the fields of an object schema as parameters of the query.
fn query_parameters(schema: Schema, schemas: &SchemaGenerator) -> Vec<Value> {
    let reference = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
    let name = reference.rsplit('/').next().unwrap_or_default();
    let schema = schemas.definitions().get(name).cloned().unwrap_or_else(|| schema.to_value());
    let is_required = |field: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|required| required.iter().any(|name| name == field))
    };
    let mut parameters = Vec::new();
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        parameters.push(json!({
            "name": field, "in": "query", "required": is_required(field),
            "description": description.unwrap_or_default(), "schema": schema,
        }));
    }
    parameters
}

fn described(response: &OperationResponse, schemas: &mut SchemaGenerator) -> Value {
    let mut described = json!({"description": response.description});
    if !response.media_type.is_empty() {
        let schema = match response.schema {
            Some(schema) => schema(schemas).to_value(),
            None => json!({"type": "string"}),
        };
        described["content"] = json!({response.media_type: {"schema": schema}});
    }
    described
}
