/// Not a workflow, since a loop has no fixed graph.
#[allow(clippy::used_underscore_binding)]
async fn crawl(urls: Vec<String>) -> Result<()> {
    <crawl as __private::WorkflowFn1>::run(__private::None, (urls,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct crawl {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for crawl {
        type Ok = <Result<()> as __private::WorkflowReturn>::Ok;
        type Error = <Result<()> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl crawl {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Vec<String>,), <crawl as __private::WorkflowTypes>::Ok> {
            <crawl as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for crawl {
        #[allow(deprecated)]
        type A = Vec<String>;
        type Return = __private::Result<
            <crawl as __private::WorkflowTypes>::Ok,
            <crawl as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "crawl";
        const INPUTS: [&'static str; 1usize] = ["urls"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Vec<String>,), <crawl as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Vec<String>,), <crawl as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <crawl as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <crawl as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <crawl as __private::WorkflowTypes>::Error>,
            (urls,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<crawl as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <crawl as __private::WorkflowTypes>::Error;
            steps.describe("Not a workflow, since a loop has no fixed graph.");
            let _ = {
                let items = steps
                    .items(
                        __private::Node::new("for.items")
                            .line(::core::line!())
                            .code(12686531440708463808u64),
                        urls,
                    );
                steps
                    .for_each(
                        __private::Node::new("for")
                            .line(::core::line!())
                            .code(12181307001866240407u64),
                        items,
                        (),
                        |steps, url, ()| {
                            let _ = steps
                                .step::<_, _, _, _>(
                                    __private::Node::new("fetch")
                                        .line(::core::line!())
                                        .code(9293940433607413327u64)
                                        .calls("fetch")
                                        .write()
                                        .direct()
                                        .text("fetch(url)"),
                                    (url,),
                                    move |args| async move {
                                        let agentflow_call_0 = fetch;
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let (cx, (url,)) = args
                                            .calling([__private::function_id(&agentflow_call_0)])
                                            .await;
                                        __private::Ok::<_, __AgentflowError>({
                                            __private::TriedStep(agentflow_call_0(url).await)
                                                .failing::<__AgentflowError>()?;
                                        })
                                    },
                                );
                            steps
                                .value::<_, _, _>(
                                    __private::Node::new("yield")
                                        .line(::core::line!())
                                        .code(10341920715579368769u64),
                                    (),
                                    move |values| {
                                        #[allow(
                                            unused_variables,
                                            unused_mut,
                                            clippy::let_unit_value
                                        )]
                                        let () = values;
                                        __private::Ok::<_, __AgentflowError>(())
                                    },
                                )
                        },
                    )
            };
            steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(16174224399372468430u64),
                    (),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let () = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<()> = Ok(());
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        crawl) }, item : || __private::Box::new(__private::LinkedWorkflow::new("crawl",
        (__private::file!(), __private::line!()), < crawl as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
