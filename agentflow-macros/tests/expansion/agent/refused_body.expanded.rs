#[allow(unused_variables, unused_mut, clippy::unused_async)]
/// Not an agent, since it has a body.
async fn answer(question: String) -> Result<String> {
    Ok(question)
}
::core::compile_error! {
    "an agent has no body, since its model does the work; end the function with `;`, or write a `#[tool]`"
}
#[doc(hidden)]
#[allow(non_camel_case_types, dead_code)]
struct answer {}
const _: () = {
    impl answer {
        #[allow(dead_code)]
        fn definition() -> &'static __private::AgentDefinition {
            loop {}
        }
        #[allow(dead_code)]
        fn agent<T0>(_: T0) -> __private::Agent {
            loop {}
        }
    }
};
