#[doc = include_str!("judge.md")]
/// For {customer}.
#[allow(clippy::missing_errors_doc, clippy::needless_pass_by_value)]
async fn judge(customer: String, limit: u8) -> Result<String> {
    <Result<String> as __private::AgentReturn>::run(<judge>::agent(customer, limit), __private::None)
        .await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct judge {}
#[allow(clippy::needless_update)]
const _: () = {
    static __AGENTFLOW_AGENT: __private::AgentDefinition = __private::agent_definition(
        "judge",
        __private::concat!(include_str!("judge.md"), "\n", "For {customer}.", "\n"),
        (__private::file!(), __private::line!()),
        __private::AgentOptions {
            answering: |agent| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<String>>::answering(agent)
            },
            parameters: || {
                #[allow(unused_imports)]
                use __private::UndecodableParameter as _;
                __private::agent_parameters([
                    __private::AgentParameter::new::<String>("customer", __private::ParameterProbe::<String>::READ),
                    __private::AgentParameter::new::<u8>("limit", __private::ParameterProbe::<u8>::READ),
                ])
            },
            asking: |arguments| {
                #[allow(unused_imports)]
                use __private::TextAnswerFallback as _;
                __private::Answers::<Result<String>>::erased(
                    <judge>::agent(
                        __private::AgentArguments::take(arguments, 0usize)?,
                        __private::AgentArguments::take(arguments, 1usize)?,
                    ),
                )
            },
            ..__private::AgentOptions::DEFAULT
        },
    );
    #[allow(deprecated)]
    impl judge {
        /// What this agent is: its name, its instruction, its tools.
        #[allow(dead_code)]
        fn definition() -> &'static __private::AgentDefinition {
            &__AGENTFLOW_AGENT
        }
        /// The agent that a call with these arguments runs, to be run with other options: `()` asks what the
        /// call asks.
        #[allow(dead_code, clippy::needless_pass_by_value, clippy::too_many_arguments)]
        fn agent(
            customer: String,
            limit: u8,
        ) -> <Result<String> as __private::AgentReturn>::Agent {
            let value0 = <String as __private::AgentParam>::json(&customer);
            <Result<String> as __private::AgentReturn>::agent(
                __private::AgentCall::new(<judge>::definition())
                    .text(include_str!("judge.md"))
                    .message()
                    .text("For ")
                    .value("customer", &value0)
                    .text(".")
                    .argument("limit", &<u8 as __private::AgentParam>::json(&limit)),
            )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        judge) }, item : || { #[allow(deprecated)] __private::Box::new(< judge >
        ::definition()) }, }
    }
};
