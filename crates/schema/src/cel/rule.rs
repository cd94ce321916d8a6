//! One rule.

use std::sync::OnceLock;

use kube_cel::cel::Context;
use serde_json::Value;

use super::{
    budget::MeteredExpression,
    memo::Memo,
    optional,
    program::Program,
    shape::{self, Shape},
};
use crate::{Cause, path::join};

type Cel = kube_cel::cel::Value;

/// One entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(crate) struct Rule {
    source: Box<str>,
    message: Box<str>,
    message_expression: Box<str>,
    reason: Box<str>,
    field_path: Box<str>,
    pub(super) optional_old: bool,
    compiled: OnceLock<Result<CompiledRule, String>>,
}

#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) program: Program,
    pub(super) runnable: MeteredExpression,
    message: Option<MeteredExpression>,
    pub(super) uses_old: bool,
    /// The parts of `self` and `oldSelf` that the rule reads.
    pub(super) reads: [Shape; 2],
    pub(super) memo: Memo,
}

// === impl Rule ===

impl Rule {
    /// Reads a rule. It is compiled when it is first evaluated.
    pub(crate) fn new(rule: &Value) -> Self {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().into();
        Self {
            source: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old: rule["optionalOldSelf"] == true,
            compiled: OnceLock::new(),
        }
    }

    /// Returns the compiled rule, or why it does not compile.
    pub(crate) fn program(&self) -> Result<&Program, &str> {
        match self.compiled() {
            Ok(compiled) => Ok(&compiled.program),
            Err(why) => Err(why),
        }
    }

    /// The part of a value that the rule reads. Returns `None` if the rule also reads the old value.
    pub(super) fn reads(&self) -> Option<&Shape> {
        self.compiled().as_ref().ok().filter(|compiled| !compiled.uses_old).map(|compiled| &compiled.reads[0])
    }

    pub(super) fn compiled(&self) -> &Result<CompiledRule, String> {
        self.compiled.get_or_init(|| {
            // The rule is kept as written for checks and messages. Only the copy for evaluation is rewritten.
            let program = Program::compile(&self.source)?;
            let message = if self.message_expression.trim().is_empty() {
                None
            } else {
                Some(self.runnable(Program::compile(&self.message_expression)?))
            };
            let runnable = self.runnable(Program { expression: program.expression.clone(), budgeted: None });
            let uses_old = program.uses("oldSelf");
            let reads = shape::of(runnable.expression(), ["self", "oldSelf"]);
            Ok(CompiledRule { program, runnable, message, uses_old, reads, memo: Memo::default() })
        })
    }

    fn runnable(&self, mut program: Program) -> MeteredExpression {
        optional::rewrite(&mut program.expression, self.optional_old.then_some("oldSelf"));
        MeteredExpression::new(program.expression)
    }

    /// The name of the rule in messages about its evaluation.
    pub(super) fn named(&self) -> &str {
        if self.message.is_empty() { self.source.trim() } else { &self.message }
    }

    /// Returns the message of a failed rule. `scope` has the complete variables, because the message may read parts that the
    /// rule does not.
    pub(super) fn failed<'a>(
        &self,
        scope: impl FnOnce() -> Context<'a>,
        compiled: &'a CompiledRule,
        size: u64,
        left: &mut u64,
    ) -> String {
        if let Some(program) = &compiled.message
            && let Ok(Cel::String(text)) = program.resolve(&scope(), size, left)
        {
            let text = text.trim();
            // kube-apiserver takes the constant message instead of a blank one, and of one with several lines.
            if !text.is_empty() && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if self.message.is_empty() {
            format!("failed rule: {}", self.source.trim())
        } else {
            self.message.to_string()
        }
    }

    pub(super) fn cause(&self, path: &str, kind: &str, detail: &str) -> Cause {
        let path = join_path(path, &self.field_path);
        let kind = Value::from(kind);
        match &*self.reason {
            "FieldValueForbidden" => Cause::forbidden(path, detail),
            "FieldValueRequired" => Cause::required(path, detail),
            "FieldValueDuplicate" => Cause::duplicate(path, &kind),
            _ => Cause::invalid(path, &kind, detail),
        }
    }
}

/// Appends the `fieldPath` of a rule to the path of its node. Both `.a.b` and `['a']` are possible.
fn join_path(path: &str, below: &str) -> String {
    let below = below.trim_start_matches('.').replace("['", ".").replace("']", "");
    let below = below.trim_start_matches('.');
    if below.is_empty() { path.to_owned() } else { join(path, below) }
}
