//! Tools from an OpenAPI document: supported parts, unsupported parts that are refused by name, and
//! that no document causes a panic.

use agentflow::Tool;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::model::Secret;
use agentflow::serde_json::{self, Value, json};
use agentflow::tool::{Effects, FnTool};
use agentflow::tools::{AddressGuard, ApiAccess, OpenApi};
use agentflow_testing::test_runtime;
use proptest::prelude::*;

use crate::loopback_server::{Server, json_of};

const PETS: &str = include_str!("../../fixtures/pets.yaml");

fn loopback() -> ApiAccess {
    let here = "127.0.0.1".parse().unwrap();
    ApiAccess::new()
        .guard(AddressGuard::default().allow(here, 32))
        .resolver(move |_| async move { Ok(vec![here]) })
        .secret("PETS_KEY", Secret::new("sk-1234567890"))
}

fn pets() -> OpenApi {
    OpenApi::read(PETS).unwrap().base_url("https://pets.example.org/v1").key("key", "PETS_KEY")
}

async fn call(tool: FnTool, arguments: Value) -> (ToolStatus, String) {
    let name = Tool::definition(&tool).name.to_string();
    let call = ToolCall::new("1", name, arguments.to_string());
    let result = test_runtime().tools(tool).build().invoke(&call, &[]).await.unwrap();
    (result.status, result.text().into_owned())
}

#[tokio::test]
async fn an_operation_is_a_tool() {
    let server = Server::start(|_| json_of(&json!([{"name": "Rex"}]))).await;
    let api = pets().base_url(server.url("/v1/")).access(loopback());
    assert_eq!(api.operation_ids(), ["listPets", "createPet", "pets/get", "uploadPhoto"]);
    let list = api.tool("listPets").unwrap().answer("$[*].name").tool().unwrap();
    let definition = Tool::definition(&list).clone();
    assert_eq!((&*definition.name, definition.policy.effects), ("listPets", Effects::Read));
    assert_eq!(&*definition.description, "Lists the pets.\n\nThe newest come first.");
    let tags = json!({"type": "array", "items": {"type": "string"}});
    assert_eq!(definition.parameters["properties"]["tags"], tags);
    assert_eq!(definition.parameters["properties"]["limit"]["maximum"], json!(100));
    assert_eq!(definition.parameters["required"], json!([]));
    let (_, text) = call(list, json!({"limit": 5, "tags": ["a", "b"], "X-Trace": "t"})).await;
    assert_eq!(text, "Rex");
    let sent = server.asked().remove(0);
    assert!(
        sent.starts_with("GET /v1/pets?limit=5&tags%5B%5D=a&tags%5B%5D=b HTTP/1.1\r\n"),
        "{sent}"
    );
    assert!(
        sent.contains("x-trace: t\r\n") && sent.contains("x-api-key: sk-1234567890\r\n"),
        "{sent}"
    );

    let create = api.tool("createPet").unwrap().tool().unwrap();
    let body = Tool::definition(&create).parameters["properties"]["body"].clone();
    assert_eq!(body["properties"]["mother"], json!({"$ref": "#/$defs/Pet"}));
    assert_eq!(Tool::definition(&create).parameters["required"], json!(["body"]));
    let (status, text) =
        call(api.tool("createPet").unwrap().tool().unwrap(), json!({"body": {"nme": "Rex"}})).await;
    assert!(
        status == ToolStatus::InvalidArguments && text.contains("`body.name`: this is missing"),
        "{text}"
    );
    call(create, json!({"body": {"name": "Rex", "kind": "dog"}})).await;
    let sent = server.asked().remove(0);
    assert!(
        sent.starts_with("POST /v1/pets HTTP/1.1\r\n")
            && sent.ends_with("{\"kind\":\"dog\",\"name\":\"Rex\"}"),
        "{sent}"
    );

    let get = api.tool("pets/get").unwrap().tool().unwrap();
    assert_eq!(&*Tool::definition(&get).name, "pets_get");
    let (status, _) =
        call(api.tool("pets/get").unwrap().tool().unwrap(), json!({"petId": "../admin"})).await;
    assert_eq!(status, ToolStatus::InvalidArguments);
    call(get, json!({"petId": "a/b"})).await;
    let sent = server.asked().remove(0);
    // The operation's list of security schemes is empty, so no key is sent.
    assert!(
        sent.starts_with("GET /v1/pets/a%2Fb HTTP/1.1\r\n") && !sent.contains("x-api-key"),
        "{sent}"
    );
}

#[test]
fn what_is_not_read_is_refused_by_its_name() {
    let problem = |id: &str| pets().tool(id).unwrap_err().to_string();
    assert!(
        problem("listPet").contains("no such operation; did you mean `listPets`?"),
        "{}",
        problem("listPet")
    );
    assert!(
        problem("x").contains("its operations are `listPets`, `createPet`"),
        "{}",
        problem("x")
    );
    assert!(
        problem("uploadPhoto").contains("its body is `image/png`, and JSON and forms are sent")
    );
    let changed = |from: &str, to: &str| {
        assert!(PETS.contains(from), "{from}");
        OpenApi::read(&PETS.replace(from, to))
            .map(|api| api.base_url("https://pets.example.org").key("key", "PETS_KEY"))
    };
    for (from, to, says) in [
        (
            "schema: {type: integer, maximum: 100}",
            "required: true\n          style: spaceDelimited",
            "`limit`: `style: spaceDelimited` is not used; in `query` there is `form`",
        ),
        (
            "schema: {type: integer, maximum: 100}",
            "required: true\n          explode: false",
            "`limit`: `explode: false` is not used",
        ),
        (
            "schema: {type: integer, maximum: 100}",
            "required: true\n          content: {}",
            "`limit`: `content` is not used",
        ),
        (
            "schema: {type: integer, maximum: 100}",
            "required: true\n          schema: {type: object}",
            "`limit` is of the type `object`",
        ),
        (
            "schema: {type: integer, maximum: 100}",
            "schema: {$dynamicRef: '#a'}",
            "`$dynamicRef` in a schema is not read",
        ),
        (
            "in: query\n          schema: {type: integer",
            "in: cookie\n          required: true\n          schema: {type: integer",
            "`in: cookie` is not used",
        ),
        (
            "'#/components/parameters/Tags'",
            "'#/components/parameters/Tag'",
            "the `$ref` `#/components/parameters/Tag` leads nowhere",
        ),
        (
            "'#/components/parameters/Tags'",
            "'https://evil.test/x.yaml'",
            "leads out of the document",
        ),
        (
            "type: apiKey, in: header",
            "type: apiKey, in: cookie",
            "the scheme `key` is of the type `apiKey` cookie",
        ),
        (
            "type: apiKey, in: header, name: x-api-key",
            "type: http, scheme: basic",
            "name them with `password(\"key\", ..)`",
        ),
        (
            "security: [{key: []}]",
            "security: [{key: [], other: []}]",
            "it needs `key` and `other` at once",
        ),
        (
            "security: [{key: []}]",
            "security: [{other: []}]",
            "it needs a key of the scheme `other`; name it with `key(\"other\", ..)`",
        ),
        ("name: x-api-key", "name: host", "the header `host` is not set by a tool"),
        (
            "  /pets:\n",
            "  .evil.test/pets:\n",
            "the path `.evil.test/pets` does not begin with `/`",
        ),
        ("operationId: createPet", "operationId: listPets", "two operations of this id"),
    ] {
        let error = changed(from, to).unwrap().tool("listPets").unwrap_err().to_string();
        assert!(error.contains(says), "{to}: {error}");
    }
    for (from, to, says) in [
        ("openapi: 3.1.0", "openapi: 3.0.3", "it is of OpenAPI `3.0.3`, and 3.1 is read"),
        ("openapi: 3.1.0", "swagger: '2.0'", "it is of OpenAPI `2.0`"),
        ("openapi: 3.1.0", "opnapi: 3.1.0", "it has no `openapi`"),
        ("operationId", "operation", "it has no operation with an `operationId`"),
        ("paths:", "paths: [", "line "),
    ] {
        let error = changed(from, to).unwrap_err().to_string();
        assert!(error.contains(says), "{to}: {error}");
    }
    assert!(
        OpenApi::read(&" ".repeat(5 << 20))
            .unwrap_err()
            .to_string()
            .contains("at most 4194304 are read")
    );
    let api = OpenApi::read(PETS).unwrap().base_url("https://pets.example.org");
    assert!(
        api.tool("listPets")
            .unwrap_err()
            .to_string()
            .contains("it needs a key of the scheme `key`")
    );
}

#[test]
fn where_it_leads_is_the_hosts_to_say() {
    let api = || OpenApi::read(PETS).unwrap().key("key", "PETS_KEY");
    let error = api().tool("listPets").unwrap_err().to_string();
    let says = "the document says the server `https://eu.pets.example.org/v1`; give `base_url(..)`, or allow its host";
    assert!(error.contains(says), "{error}");
    let url = |api: OpenApi| {
        let tool = api.tool("listPets").map_err(|error| error.to_string())?;
        Ok::<_, String>(serde_json::to_value(&tool).unwrap()["url"].as_str().unwrap().to_owned())
    };
    let allowed = |hosts: [&str; 1]| url(api().access(ApiAccess::new().hosts(hosts)));
    assert_eq!(allowed(["*.example.org"]).unwrap(), "https://eu.pets.example.org/v1/pets");
    assert_eq!(allowed(["staging.example.org"]).unwrap(), "https://staging.example.org/pets");
    assert!(allowed(["other.test"]).is_err());
    assert_eq!(url(api().base_url("https://mine.test/x/")).unwrap(), "https://mine.test/x/pets");
    for base in [
        "https://mine.test/x?y=z",
        "https://{h}/",
        "mine.test",
        "file:///x",
        "https://u:p@mine.test",
    ] {
        assert!(url(api().base_url(base)).is_err(), "{base}");
    }
}

#[tokio::test]
async fn every_request_stays_below_the_base_address() {
    let server = Server::start(|_| json_of(&json!({"items": [1], "next": "/internal"}))).await;
    let api = |path: &str| {
        let document = json!({
            "openapi": "3.1.0",
            "paths": {path: {"get": {"operationId": "get", "security": [{"key": []}]}}},
            "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        });
        let api = OpenApi::read(&document.to_string()).unwrap();
        api.base_url(server.url("/team/7")).key("key", "PETS_KEY").access(loopback())
    };
    for path in [
        "/../../internal",
        "/%2e%2e/%2E%2E/internal",
        "/a/..%2f../..%2finternal",
        "/a/%252e%252e/%252e%252e/%252e%252e/internal",
        "/..\\..\\internal",
        "/.\t./.\n./internal",
        "/..;a=b/..;/internal",
        "/a/./b",
        "/a/..",
    ] {
        let error = api(path).tool("get").unwrap_err().to_string();
        assert!(
            error.contains("a part `.` or `..` or a control character in its path"),
            "{path}: {error}"
        );
    }
    let paging = |path: &str, at: &str| {
        let tool = api(path).tool("get").unwrap().answer("$.items");
        tool.paging(agentflow::tools::Paging::NextUrl { at: at.to_owned() }).tool().unwrap()
    };
    let (status, text) = call(paging("/pets", "$.next"), json!({})).await;
    assert!(status == ToolStatus::Error && text.contains("not below the base address"), "{text}");
    let asked = server.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("GET /team/7/pets "), "{asked:?}");
}

#[test]
fn a_key_is_sent_only_to_the_default_port_of_the_documents_server() {
    let port_of = |port: &str| {
        PETS.replace("{region}.pets.example.org", &format!("{{region}}.pets.example.org{port}"))
    };
    let tool = |port: &str, hosts: &str| {
        let api = OpenApi::read(&port_of(port)).unwrap().key("key", "PETS_KEY");
        api.access(ApiAccess::new().hosts([hosts]))
            .tool("listPets")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(tool("", "eu.pets.example.org"), Ok(()));
    let error = tool(":8443", "eu.pets.example.org").unwrap_err();
    assert!(error.contains("no key is sent to `eu.pets.example.org:8443`"), "{error}");
    assert_eq!(tool(":8443", "eu.pets.example.org:8443"), Ok(()));
}

/// Returns the document with one value replaced, removed or moved.
fn mutated(value: &Value, place: usize, change: u8) -> Value {
    fn visit(value: &mut Value, left: &mut usize, change: u8) {
        if *left == 0 {
            *value = match change {
                0 => Value::Null,
                1 => json!(7),
                2 => json!("#/components/schemas/Pet"),
                3 => json!({"$ref": "#/components/schemas/Pet"}),
                4 => json!({"$ref": "#/paths/~1pets/get"}),
                5 => json!([]),
                6 => json!([value.clone(), value.clone()]),
                7 => json!({"": value.clone(), "a": value.clone()}),
                _ => json!("é\u{0}{}/../?#"),
            };
        }
        *left = left.wrapping_sub(1);
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| visit(item, left, change)),
            Value::Object(fields) => fields.values_mut().for_each(|item| visit(item, left, change)),
            _ => {}
        }
    }
    let mut value = value.clone();
    visit(&mut value, &mut place.clone(), change);
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_document_makes_it_panic(first in (0_usize..160, 0_u8..9), second in (0_usize..200, 0_u8..9)) {
        let read = OpenApi::read(PETS).unwrap();
        let ids: Vec<String> = read.operation_ids().into_iter().map(ToOwned::to_owned).collect();
        let document: Value = serde_json::from_str(include_str!("../../fixtures/pets.json")).unwrap();
        let document = mutated(&mutated(&document, first.0, first.1), second.0, second.1);
        if let Ok(api) = OpenApi::read(&document.to_string()) {
            let api = api.base_url("https://pets.example.org").key("key", "PETS_KEY");
            for id in &ids {
                match api.tool(id) {
                    // Each result is a valid tool for the given host.
                    Ok(tool) => {
                        let url = serde_json::to_value(&tool).unwrap()["url"].as_str().unwrap().to_owned();
                        prop_assert!(tool.tool().is_ok(), "{:?}", tool.tool());
                        prop_assert!(url.starts_with("https://pets.example.org/") , "{}", url);
                    }
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(at in 0_usize..1500, cut in 0_usize..40, put in "[a-z:{}\\[\\]&*'\"\n ]{0,6}") {
        let mut text = PETS.to_owned();
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let end = (at..=(at + cut).min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        text.replace_range(at..end, &put);
        if let Ok(api) = OpenApi::read(&text) {
            let _ = api.base_url("https://pets.example.org").key("key", "PETS_KEY").tool("listPets");
        }
    }
}

/// An optional parameter that a tool cannot send is left out.
#[tokio::test]
async fn optional_parameters_that_cannot_be_sent_are_left_out() {
    for instead in [
        "explode: false",
        "style: deepObject",
        "content: {}",
        "schema: {type: object}",
        "x-more: 1\n        - {name: session, in: cookie}\n        - {name: ids, in: header, schema: {type: array}}",
    ] {
        let text = PETS.replace("schema: {type: integer, maximum: 100}", instead);
        let api = OpenApi::read(&text)
            .unwrap()
            .base_url("https://pets.example.org")
            .key("key", "PETS_KEY");
        let tool = api
            .tool("listPets")
            .unwrap_or_else(|error| panic!("{instead}: {error}"))
            .tool()
            .unwrap();
        let properties = Tool::definition(&tool).parameters["properties"].clone();
        assert_eq!(
            properties.get("limit").is_some(),
            instead.starts_with("x-more"),
            "{instead}: {properties}"
        );
        assert!(
            properties.get("session").is_none() && properties.get("ids").is_none(),
            "{properties}"
        );
        assert!(properties.get("tags").is_some(), "{properties}");
    }
}

/// Keywords beside a reference are merged, and other media types of JSON are sent.
#[tokio::test]
async fn schemas_beside_references_are_merged() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/notes": {"patch": {"operationId": "note", "requestBody": {"required": true, "content": {
            "application/merge-patch+json": {"schema": {
                "$ref": "#/components/schemas/Base",
                "properties": {"note": {"type": "string"}},
                "required": ["note"],
            }}
        }}}}},
        "components": {"schemas": {"Base": {
            "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]
        }}}
    });
    let api =
        OpenApi::read(&document.to_string()).unwrap().base_url(server.url("/")).access(loopback());
    let tool = || api.tool("note").unwrap_or_else(|error| panic!("{error}")).tool().unwrap();
    let body = Tool::definition(&tool()).parameters["properties"]["body"].clone();
    assert_eq!(body["properties"], json!({"id": {"type": "integer"}, "note": {"type": "string"}}));
    assert_eq!(body["required"], json!(["id", "note"]));
    let (status, text) = call(tool(), json!({"body": {"id": 1, "note": "x"}})).await;
    assert!(status.is_success(), "{text}");
    let sent = server.asked().remove(0);
    assert!(sent.contains("content-type: application/merge-patch+json\r\n"), "{sent}");
    // Two schemas of one property both apply.
    let both =
        document.to_string().replace("\"note\":{\"type\":\"string\"}", "\"id\":{\"maximum\":5}");
    let api = OpenApi::read(&both).unwrap().base_url(server.url("/")).access(loopback());
    let (status, _) =
        call(api.tool("note").unwrap().tool().unwrap(), json!({"body": {"id": 6, "note": "x"}}))
            .await;
    assert!(!status.is_success());
}

/// Builds a document with an operation for each id and body.
fn with_bodies(server: &Server, bodies: &Value) -> OpenApi {
    let mut paths = serde_json::Map::new();
    for (id, body) in bodies["bodies"].as_object().unwrap() {
        paths.insert(format!("/{id}"), json!({"post": {"operationId": id, "requestBody": body}}));
    }
    let document =
        json!({"openapi": "3.1.0", "paths": paths, "components": {"schemas": bodies["schemas"]}});
    OpenApi::read(&document.to_string()).unwrap().base_url(server.url("/")).access(loopback())
}

#[tokio::test]
async fn forms_are_sent_as_bodies() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let schema = json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
        "name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
        "filter": {"type": "object"}, "photo": {"type": "string"},
    }});
    let of = |kind: &str, encoding: Value| json!({"required": true, "content": {kind: {"schema": schema, "encoding": encoding}}});
    let deep = json!({"filter": {"style": "deepObject", "explode": true}});
    let needed = json!({"name": {"style": "pipeDelimited"}});
    let api = with_bodies(
        &server,
        &json!({"bodies": {
            "form": of("application/x-www-form-urlencoded", deep),
            "parts": of("multipart/form-data", json!({"photo": {"contentType": "image/svg+xml"}})),
            "styled": of("application/x-www-form-urlencoded", needed),
            "list": {"content": {"multipart/form-data": {"schema": {"type": "array"}}}},
            "either": {"content": {
                "multipart/form-data": {}, "application/x-www-form-urlencoded": {}, "application/json": {"schema": schema},
            }},
        }}),
    );
    let tool = |id: &str| api.tool(id).unwrap_or_else(|error| panic!("{error}")).tool().unwrap();
    let given = json!({"name": "Rex & co", "tags": ["a", "b"]});
    let (status, text) = call(tool("form"), json!({"body": given})).await;
    assert!(status.is_success(), "{text}");
    let sent = server.asked().remove(0);
    assert!(sent.contains("content-type: application/x-www-form-urlencoded\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nname=Rex+%26+co&tags=a&tags=b"), "{sent}");
    // An optional field with an unsupported style is left out.
    let properties =
        Tool::definition(&tool("form")).parameters["properties"]["body"]["properties"].clone();
    assert!(
        properties.get("filter").is_none() && properties.get("photo").is_some(),
        "{properties}"
    );
    let (status, text) = call(tool("form"), json!({"body": {"tags": []}})).await;
    assert!(
        status == ToolStatus::InvalidArguments && text.contains("`body.name`: this is missing"),
        "{text}"
    );

    let (status, text) = call(
        tool("parts"),
        json!({"body": {"name": "Rex", "photo": "<svg/>", "filter": {"a": 1}}}),
    )
    .await;
    assert!(status.is_success(), "{text}");
    let sent = server.asked().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    let boundary = head
        .lines()
        .find_map(|line| line.strip_prefix("content-type: multipart/form-data; boundary="))
        .unwrap();
    let filter = "Content-Disposition: form-data; name=\"filter\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}";
    let photo = "Content-Disposition: form-data; name=\"photo\"; filename=\"photo\"\r\nContent-Type: image/svg+xml\r\n\r\n<svg/>";
    let name = "Content-Disposition: form-data; name=\"name\"\r\n\r\nRex";
    let expected = format!(
        "--{boundary}\r\n{filter}\r\n--{boundary}\r\n{name}\r\n--{boundary}\r\n{photo}\r\n--{boundary}--\r\n"
    );
    assert_eq!(body, expected);

    let error = api.tool("styled").unwrap_err().to_string();
    assert!(
        error.contains("the field `name` of its form: `style: pipeDelimited` is not used"),
        "{error}"
    );
    let error = api.tool("list").unwrap_err().to_string();
    assert!(
        error.contains("its body is a form of the type `array`, and an object is sent"),
        "{error}"
    );
    // JSON is preferred if the operation accepts it.
    call(tool("either"), json!({"body": {"name": "Rex"}})).await;
    let sent = server.asked().remove(0);
    assert!(
        sent.contains("content-type: application/json\r\n") && sent.ends_with("{\"name\":\"Rex\"}"),
        "{sent}"
    );
}

/// A schema that contains itself is checked at each depth.
#[tokio::test]
async fn a_schema_that_contains_itself_is_checked_at_each_depth() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let tree = json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
        "name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
    }});
    let body = json!({"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}});
    let api = with_bodies(&server, &json!({"bodies": {"plant": body}, "schemas": {"Tree": tree}}));
    let tool = || api.tool("plant").unwrap_or_else(|error| panic!("{error}")).tool().unwrap();
    let parameters = Tool::definition(&tool()).parameters.clone();
    assert_eq!(
        parameters["$defs"]["Tree"]["properties"]["below"]["items"],
        json!({"$ref": "#/$defs/Tree"})
    );
    let leaf = json!({"name": "c"});
    let whole = json!({"name": "a", "below": [{"name": "b", "below": [leaf]}]});
    let (status, text) = call(tool(), json!({"body": whole})).await;
    assert!(status.is_success(), "{text}");
    let (status, text) = call(
        tool(),
        json!({"body": {"name": "a", "below": [{"name": "b", "below": [{"nme": "c"}]}]}}),
    )
    .await;
    assert_eq!(status, ToolStatus::InvalidArguments);
    assert!(text.contains("body.below[0].below[0].name"), "{text}");
}

/// An invalid schema does not affect other operations, and keywords of older schema versions are
/// supported.
#[tokio::test]
async fn a_bad_schema_spoils_only_its_own_operation() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let of = |schema: Value| json!({"content": {"application/json": {"schema": schema}}});
    let mut wide = serde_json::Map::new();
    for at in 0..6_000 {
        wide.insert(format!("p{at}"), json!({"type": "string"}));
    }
    let older = json!({"type": "object", "properties": {
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
        "nick": {"type": "string", "nullable": true},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    }});
    let api = with_bodies(
        &server,
        &json!({"bodies": {
            "fine": of(json!({"type": "object"})),
            "older": of(older),
            "unknown": of(json!({"type": "file"})),
            "wide": of(json!({"type": "object", "properties": wide})),
            "wrong": of(json!({"type": "integer", "minimum": "none"})),
        }}),
    );
    assert_eq!(api.operation_ids().len(), 5);
    for id in ["unknown", "wide", "wrong"] {
        let error = api.tool(id).unwrap_err().to_string();
        assert!(error.contains(&format!("`{id}`")), "{error}");
    }
    assert!(api.tool("fine").unwrap().tool().is_ok());
    let tool = || api.tool("older").unwrap_or_else(|error| panic!("{error}")).tool().unwrap();
    for (body, is_well) in [
        (json!({"age": 1, "nick": null, "pair": ["a", 1]}), true),
        (json!({"age": 0}), false),
        (json!({"nick": 1}), false),
        (json!({"pair": [1]}), false),
    ] {
        let (status, text) = call(tool(), json!({ "body": body })).await;
        assert_eq!(status.is_success(), is_well, "{body}: {text}");
    }
}

/// A description whose `content-type` is a form is sent as one.
#[tokio::test]
async fn a_described_tool_sends_a_form() {
    let server = Server::start(|_| json_of(&json!({}))).await;
    let text = json!({
        "name": "send", "description": "Sends it.", "method": "POST", "url": server.url("/send"),
        "headers": {"content-type": "application/x-www-form-urlencoded"},
        "parameters": {"to": {"in": "field"}, "note": {"in": "field", "required": false}},
    });
    let tool = agentflow::tools::ApiTool::read(&text.to_string())
        .unwrap()
        .access(loopback())
        .tool()
        .unwrap();
    let (status, text) = call(tool, json!({"to": "a b"})).await;
    assert!(status.is_success(), "{text}");
    let sent = server.asked().remove(0);
    assert!(sent.ends_with("\r\n\r\nto=a+b"), "{sent}");
}
