/// Looks at a page.
#[allow(clippy::used_underscore_binding)]
async fn look_at(url: String) -> Result<usize> {
    <look_at as __private::WorkflowFn1>::run(__private::None, (url,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct look_at {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for look_at {
        type Ok = <Result<usize> as __private::WorkflowReturn>::Ok;
        type Error = <Result<usize> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl look_at {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(String,), <look_at as __private::WorkflowTypes>::Ok> {
            <look_at as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for look_at {
        #[allow(deprecated)]
        type A = String;
        type Return = __private::Result<
            <look_at as __private::WorkflowTypes>::Ok,
            <look_at as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "look_at";
        const INPUTS: [&'static str; 1usize] = ["url"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(String,), <look_at as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(String,), <look_at as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <look_at as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <look_at as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <look_at as __private::WorkflowTypes>::Error>,
            (url,): (__private::Handle<Self::A>,),
        ) -> __private::Handle<<look_at as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <look_at as __private::WorkflowTypes>::Error;
            steps.describe("Looks at a page.");
            let bound_1 = steps
                .step::<_, _, _, _>(
                    __private::Node::new("page")
                        .line(::core::line!())
                        .code(5956098427924000285u64)
                        .calls("fetch")
                        .direct()
                        .text("fetch(url)"),
                    (url,),
                    move |args| async move {
                        let agentflow_call_0 = fetch;
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (cx, (url,)) = args
                            .calling([__private::function_id(&agentflow_call_0)])
                            .await;
                        __private::Ok::<_, __AgentflowError>(
                            __private::TriedStep(agentflow_call_0(url).await)
                                .failing::<__AgentflowError>()?,
                        )
                    },
                );
            let page = bound_1;
            let bound_2 = {
                let told_0 = __private::told();
                steps
                    .let_value::<_, _, _>(
                        __private::Node::new("words")
                            .line(::core::line!())
                            .code(6481825094717273900u64)
                            .calls("split")
                            .at_its_place_unless([told_0.is_standard()]),
                        (page,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (page,) = values;
                            __private::Ok::<_, __AgentflowError>(
                                __private::LetOutput(
                                        (
                                            if __private::NEVER {
                                                told_0.tell(__private::Receiver(&page).kind())
                                            },
                                            page.split(' '),
                                        )
                                            .1,
                                    )
                                    .bound()
                                    .value(),
                            )
                        },
                    )
            };
            let words = bound_2;
            let bound_3 = {
                let told_0 = __private::told();
                steps
                    .step::<_, _, _, _>(
                        __private::Node::new("count")
                            .line(::core::line!())
                            .code(4453144752957049415u64)
                            .calls("count")
                            .after_effects_unless([told_0.is_standard()])
                            .direct()
                            .text("count(words.collect())"),
                        (words,),
                        move |args| async move {
                            let agentflow_call_0 = count;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (words,)) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            __private::Ok::<_, __AgentflowError>(
                                __private::TriedStep(
                                        agentflow_call_0(
                                                (
                                                    if __private::NEVER {
                                                        told_0.tell(__private::Receiver(&words).kind())
                                                    },
                                                    words.collect(),
                                                )
                                                    .1,
                                            )
                                            .await,
                                    )
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    )
            };
            let count = bound_3;
            let last: __private::Handle<<Result<usize> as __private::WorkflowReturn>::Ok> = {
                let told_0 = __private::told();
                steps
                    .value::<_, _, _>(
                        __private::Node::new("output")
                            .line(::core::line!())
                            .code(6974312986091710006u64)
                            .at_its_place_unless([told_0.is_standard()]),
                        (count,),
                        move |values| {
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (count,) = values;
                            #[allow(clippy::let_and_return)]
                            {
                                let ended: Result<usize> = Ok(
                                    (
                                        if __private::NEVER {
                                            told_0.tell(__private::Receiver(&count).kind())
                                        },
                                        count + 1,
                                    )
                                        .1,
                                );
                                ended
                            }
                        },
                    )
            };
            __private::Output(&bound_1).owned();
            __private::Output(&bound_2).owned();
            __private::Output(&bound_3).owned();
            last
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        look_at) }, item : ||
        __private::Box::new(__private::LinkedWorkflow::new("look_at",
        (__private::file!(), __private::line!()), < look_at as __private::WorkflowFn1 >
        ::GRAPH)), }
    }
};
