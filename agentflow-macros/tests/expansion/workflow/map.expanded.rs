/// A step for each file.
#[allow(clippy::used_underscore_binding)]
async fn notes(files: Vec<String>, rules: Rules) -> Result<Vec<Note>> {
    <notes as __private::WorkflowFn2>::run(__private::None, (files, rules)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct notes {}
const _: () = {
    #[allow(deprecated)]
    impl __private::WorkflowTypes for notes {
        type Ok = <Result<Vec<Note>> as __private::WorkflowReturn>::Ok;
        type Error = <Result<Vec<Note>> as __private::WorkflowReturn>::Error;
    }
    #[allow(deprecated)]
    impl notes {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Vec<String>, Rules), <notes as __private::WorkflowTypes>::Ok> {
            <notes as __private::WorkflowFn2>::workflow()
        }
    }
    impl __private::WorkflowFn2 for notes {
        #[allow(deprecated)]
        type A = Vec<String>;
        #[allow(deprecated)]
        type B = Rules;
        type Return = __private::Result<
            <notes as __private::WorkflowTypes>::Ok,
            <notes as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "notes";
        const INPUTS: [&'static str; 2usize] = ["files", "rules"];
        #[allow(deprecated)]
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(Vec<String>, Rules), <notes as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(Vec<String>, Rules), <notes as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        fn error_form() -> __private::ErrorForm<
            __private::Result<(), <notes as __private::WorkflowTypes>::Error>,
        > {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            (&&&__private::ReturnForm::<__private::Result<(), <notes as __private::WorkflowTypes>::Error>>::of_type())
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
            steps: &mut __private::Steps<'_, <notes as __private::WorkflowTypes>::Error>,
            (files, rules): (__private::Handle<Self::A>, __private::Handle<Self::B>),
        ) -> __private::Handle<<notes as __private::WorkflowTypes>::Ok> {
            #[allow(unused_imports)]
            use __private::{
                AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _,
                OfAnything as _, OfBorrow as _, OfOwned as _, OfStandard as _,
                OptionTried as _, OtherNamed as _, OtherOutput as _, OtherReceiver as _,
                OtherTried as _, PlainStep as _, UnawaitedValue as _,
            };
            type __AgentflowError = <notes as __private::WorkflowTypes>::Error;
            steps.describe("A step for each file.");
            let notes = {
                let items = steps
                    .items(
                        __private::Node::new("notes.items")
                            .line(::core::line!())
                            .code(15940959950753440055u64),
                        files,
                    );
                steps
                    .map::<_, _, _, _, _>(
                        __private::Node::new("notes")
                            .line(::core::line!())
                            .code(9936707988244321681u64)
                            .calls("annotate")
                            .concurrency(2)
                            .direct()
                            .text("annotate(file, rules)"),
                        items,
                        (rules,),
                        move |args| async move {
                            let agentflow_call_0 = annotate;
                            #[allow(
                                unused_variables,
                                unused_mut,
                                clippy::let_unit_value
                            )]
                            let (cx, (item, (rules,))) = args
                                .calling([__private::function_id(&agentflow_call_0)])
                                .await;
                            let file = item;
                            __private::Ok::<_, __AgentflowError>(
                                __private::FormStep(agentflow_call_0(file, rules).await)
                                    .failing::<__AgentflowError>()?,
                            )
                        },
                    )
            };
            steps
                .value::<_, _, _>(
                    __private::Node::new("output")
                        .line(::core::line!())
                        .code(8894907817829508314u64),
                    (notes,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (notes,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<Vec<Note>> = Ok(notes);
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || { #[allow(deprecated)] __private::function_id(&
        notes) }, item : || __private::Box::new(__private::LinkedWorkflow::new("notes",
        (__private::file!(), __private::line!()), < notes as __private::WorkflowFn2 >
        ::GRAPH)), }
    }
};
