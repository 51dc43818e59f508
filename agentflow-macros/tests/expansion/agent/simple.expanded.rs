/// Answer in one sentence: {question}
#[allow(clippy::missing_errors_doc, clippy::needless_pass_by_value)]
async fn answer(question: String) -> Result<String> {
    <Result<String> as __private::AgentReturn>::run(<answer>::agent(question), __private::None)
        .await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct answer {}
#[allow(clippy::needless_update)]
const _: () = {
    static __AGENTFLOW_AGENT: __private::AgentDefinition = __private::agent_definition(
        "answer",
        "Answer in one sentence: {question}",
        (__private::file!(), __private::line!()),
        __private::AgentOptions {
            model: __private::Some("anthropic/claude-sonnet-4-5"),
            answering: |agent| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<String>>::answering(agent)
            },
            parameters: || {
                #[allow(unused_imports)]
                use __private::UndecodableParameter as _;
                __private::agent_parameters([
                    __private::AgentParameter::new::<String>("question", __private::ParameterProbe::<String>::READ),
                ])
            },
            asking: |arguments| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<String>>::erased(
                    <answer>::agent(__private::AgentArguments::take(arguments, 0usize)?),
                )
            },
            ..__private::AgentOptions::DEFAULT
        },
    );
    #[allow(deprecated)]
    impl answer {
        /// What this agent is: its name, its instruction, its tools.
        #[allow(dead_code)]
        fn definition() -> &'static __private::AgentDefinition {
            &__AGENTFLOW_AGENT
        }
        /// The agent that a call with these arguments runs, to be run with other options: `()` asks what the
        /// call asks.
        #[allow(dead_code, clippy::needless_pass_by_value, clippy::too_many_arguments)]
        fn agent(question: String) -> <Result<String> as __private::AgentReturn>::Agent {
            let value0 = <String as __private::AgentParam>::json(&question);
            <Result<String> as __private::AgentReturn>::agent(
                __private::AgentCall::new(<answer>::definition())
                    .message()
                    .text("Answer in one sentence: ")
                    .value("question", &value0),
            )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        answer) }, item : || { #[allow(deprecated)] __private::Box::new(< answer >
        ::definition()) }, }
    }
};
