//! Creates all tools of one text from another author: the description of a REST or GraphQL tool, or
//! an OpenAPI document.

use std::collections::BTreeMap;

use super::api_access::ApiAccess;
use super::api_error::ApiToolError;
use super::api_tool::ApiTool;
use super::description_form::value_of;
use super::graphql_tool::GraphqlTool;
use super::open_api::OpenApi;
use agentflow_core::tool::FnTool;

/// Maximum size of a description in bytes, which is the limit of an OpenAPI document.
pub const MOST_BYTES: usize = 4 << 20;

/// Returns the tools of a description and the errors of those that cannot be created. `keys` maps
/// names of OpenAPI security schemes to names of keys. An invalid operation of an OpenAPI document
/// does not affect the others.
pub fn described_tools(
    text: &str,
    access: &ApiAccess,
    keys: &BTreeMap<String, String>,
) -> (Vec<FnTool>, Vec<ApiToolError>) {
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    let has = |name: &str| value_of(text, MOST_BYTES).is_ok_and(|value| value.get(name).is_some());
    if has("openapi") || has("swagger") {
        let api = match OpenApi::read(text) {
            Ok(api) => api.access(access.clone()),
            Err(error) => return (tools, vec![error]),
        };
        let api = keys.iter().fold(api, |api, (scheme, key)| api.key(scheme, key));
        for id in api.operation_ids() {
            match api.tool(id).and_then(|tool| tool.tool()) {
                Ok(tool) => tools.push(tool),
                Err(error) => errors.push(error),
            }
        }
        return (tools, errors);
    }
    let made = match has("query") {
        true => GraphqlTool::read(text).and_then(|tool| tool.access(access.clone()).tool()),
        false => ApiTool::read(text).and_then(|tool| tool.access(access.clone()).tool()),
    };
    match made {
        Ok(tool) => tools.push(tool),
        Err(error) => errors.push(error),
    }
    (tools, errors)
}
