/// A closure and a method are steps whose function is not known.
#[allow(clippy::used_underscore_binding)]
async fn local(cx: &Context, a: Client) -> Result<String> {
    <local as __private::WorkflowFn1>::run(
            __private::Some(<Context as __private::WorkflowContext>::context(cx)),
            (a,),
        )
        .await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct local {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for local {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl local {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Client,), <local as __private::WorkflowTypes>::Ok> {
            <local as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for local {
        #[allow(deprecated)]
        type A = Client;
        type Return = __private::Result<
            <local as __private::WorkflowTypes>::Ok,
            <local as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "local";
        const INPUTS: [&'static str; 1usize] = ["a"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Client,), <local as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Client,), <local as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <local as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <local as __private::WorkflowTypes>::Error>>::of_type())
                .agentflow_error()
        }
        #[allow(
            unused_braces,
            clippy::needless_question_mark,
            clippy::no_effect_underscore_binding,
            clippy::too_many_lines,
            clippy::used_underscore_binding,
            clippy::zero_prefixed_literal
        )]
        fn nodes(
            steps: &mut __private::Steps<'_, <local as __private::WorkflowTypes>::Error>,
            (a,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<local as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <local as __private::WorkflowTypes>::Error;
            steps
                .describe(
                    "A closure and a method are steps whose function is not known.",
                );
            let bound_3 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("page")
                        .line(::core::line!())
                        .code(7245015186190802955u64)
                        .calls("fetch"),
                    (a,),
                    move |args| async move {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (a,)) = args.calling([]).await;
                        #[allow(unused_variables)]
                        let cx = &cx;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(a.fetch(cx).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let page = bound_3;
            let bound_4 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("loud")
                        .line(::core::line!())
                        .code(6717413903224111177u64)
                        .calls("shout"),
                    (page,),
                    move |args| async move {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (page,)) = args.calling([]).await;
                        #[allow(unused_variables, unused_mut)]
                        let shout = |text: String| async move {
                            Ok(text.to_uppercase())
                        };
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(shout(page).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let loud = bound_4;
            let last: __private::Handle<<Result<String> as __private::WorkflowReturn>::Ok> = steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(3111348293539290851u64),
                    (loud,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (loud,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(loud);
                            ended
                        }
                    },
                );
            __private::Output(&bound_3).owned();
            __private::Output(&bound_4).owned();
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        local) }, item : || __private::Box::new(__private::LinkedWorkflow::new("local",
        (__private::file!(), __private::line!()), < local as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
