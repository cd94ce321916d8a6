//! Evaluation: walks a parsed template over typed data.

mod field;

use std::borrow::Cow;

use crate::{
    Limits, Template,
    arena::{Arena, Slot},
    format::print,
    node::{Branch, Command, Expr, Node, Number, Pipe},
    quote::quote,
    reflect::{Kind, Ty, Value},
};

/// The bytes that one step may read or write.
const BYTES_A_STEP: usize = 64;

/// The variables that one step may search.
const VARIABLES_A_STEP: usize = 32;

/// The deepest nesting of blocks, including those of called templates. Each block needs the stack of several calls here, and
/// the threads of a server have 2 MiB.
const MAX_BLOCKS: usize = 400;

/// Why an evaluation ended early.
pub(crate) enum Stop {
    /// An error, with its full text.
    Error(String),
    /// `{{break}}`.
    Break,
    /// `{{continue}}`.
    Continue,
}

pub(crate) type Step<T> = Result<T, Stop>;

/// Renders `template` with `data`. `Err` has Go's complete message.
pub(crate) fn execute<'a>(
    template: &'a Template,
    data: &Value<'a>,
    limits: Limits,
) -> Result<String, String> {
    let values = Arena::default();
    let mut state = State {
        template,
        next_slot: values.first(),
        out: String::with_capacity(template.text.len()),
        vars: vec![("$", data.clone())],
        body: &template.name,
        at: None,
        depth: 0,
        blocks: 0,
        steps: 0,
        limits,
    };
    match state.list(data, &template.root) {
        Ok(()) | Err(Stop::Break | Stop::Continue) => Ok(state.out),
        Err(Stop::Error(message)) => Err(message),
    }
}

/// A node that a message quotes.
#[derive(Clone, Copy)]
pub(crate) enum Quoted<'a> {
    Node(&'a Node),
    Pipe(&'a Pipe),
    Command(&'a Command),
    Expr(&'a Expr),
}

pub(crate) struct State<'a> {
    pub(crate) template: &'a Template,
    out: String,
    vars: Vec<(&'a str, Value<'a>)>,
    /// The name of the template body that is being executed.
    body: &'a str,
    /// The current node.
    at: Option<Quoted<'a>>,
    depth: usize,
    /// The nesting of node lists, which determines how much stack is used.
    blocks: usize,
    steps: usize,
    pub(crate) limits: Limits,
    /// The slot for the next value that a method creates.
    pub(crate) next_slot: &'a Slot,
}

impl<'a> State<'a> {
    // === errors ===

    pub(crate) fn error<T>(&self, message: impl std::fmt::Display) -> Step<T> {
        let text = &self.template.text;
        let (pos, context) = match self.at {
            None => (0, String::new()),
            Some(Quoted::Node(node)) => (node.pos(), node.to_string()),
            Some(Quoted::Pipe(pipe)) => (pipe.pos, pipe.to_string()),
            Some(Quoted::Command(command)) => (command.pos, command.to_string()),
            Some(Quoted::Expr(expr)) => (expr.pos(), expr.to_string()),
        };
        let before = text.get(..pos).unwrap_or(text);
        let column = before.rfind('\n').map_or(before.len(), |newline| before.len() - newline - 1);
        let line = 1 + before.matches('\n').count();
        Err(Stop::Error(format!(
            "template: {}:{line}:{column}: executing {} at <{context}>: {message}",
            self.template.name,
            quote(self.body),
        )))
    }

    pub(crate) fn at(&mut self, node: Quoted<'a>) {
        self.at = Some(node);
    }

    pub(crate) fn at_expr(&mut self, expr: &'a Expr) {
        self.at(Quoted::Expr(expr));
    }

    /// Counts one step, so that no template can run forever.
    pub(crate) fn tick(&mut self) -> Step<()> {
        self.spend(1)
    }

    fn spend(&mut self, steps: usize) -> Step<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.limits.steps {
            return self.error(format!("exceeded the limit of {} evaluation steps", self.limits.steps));
        }
        Ok(())
    }

    /// Counts the bytes of values that a step reads or creates, so that the cost of a step is limited.
    pub(crate) fn charge(&mut self, bytes: usize) -> Step<()> {
        self.spend(bytes / BYTES_A_STEP)
    }

    fn write(&mut self, text: &str) -> Step<()> {
        self.out.push_str(text);
        if self.out.len() > self.limits.output {
            return self.error(format!("output exceeds the limit of {} bytes", self.limits.output));
        }
        Ok(())
    }

    // === nodes ===

    fn list(&mut self, dot: &Value<'a>, nodes: &'a [Node]) -> Step<()> {
        if self.blocks == MAX_BLOCKS {
            return self.error(format!("exceeded maximum nesting depth ({MAX_BLOCKS})"));
        }
        self.blocks += 1;
        let done = nodes.iter().try_for_each(|node| self.walk(dot, node));
        self.blocks -= 1;
        done
    }

    fn walk(&mut self, dot: &Value<'a>, node: &'a Node) -> Step<()> {
        self.at(Quoted::Node(node));
        self.tick()?;
        match node {
            Node::Text { text, .. } => self.write(text),
            Node::Action { pipe, .. } => {
                let value = self.pipeline(dot, pipe)?;
                if !pipe.decl.is_empty() {
                    return Ok(());
                }
                self.at(Quoted::Node(node));
                let (mut value, nil) = value.indirect();
                // A nil *apis.URL has a String method that returns an empty string.
                if nil && matches!(value, Value::Typed(Ty::Ptr(Ty::Url), _)) {
                    value = Value::Str("".into());
                }
                let text = match value {
                    Value::Invalid => Cow::Borrowed("<no value>"),
                    Value::Str(text) => text,
                    other => Cow::Owned(print(&[other])),
                };
                self.write(&text)
            }
            Node::If(branch) | Node::With(branch) => {
                let mark = self.vars.len();
                let value = self.pipeline(dot, &branch.pipe)?;
                let done = if value.is_true() {
                    let dot = if matches!(node, Node::With(_)) { &value } else { dot };
                    self.list(dot, &branch.body)
                } else {
                    branch.otherwise.as_ref().map_or(Ok(()), |nodes| self.list(dot, nodes))
                };
                self.vars.truncate(mark);
                done
            }
            Node::Range(branch) => {
                let mark = self.vars.len();
                let done = self.range(dot, branch);
                self.vars.truncate(mark);
                done
            }
            Node::Template { name, pipe, .. } => self.template_call(dot, name, pipe.as_ref()),
            Node::Break { .. } => Err(Stop::Break),
            Node::Continue { .. } => Err(Stop::Continue),
        }
    }

    fn template_call(&mut self, dot: &Value<'a>, name: &'a str, pipe: Option<&'a Pipe>) -> Step<()> {
        let body = if *name == *self.template.name && !self.template.defines.contains_key(name) {
            &self.template.root
        } else if let Some(body) = self.template.defines.get(name) {
            body
        } else {
            return self.error(format!("template {} not defined", quote(name)));
        };
        if self.depth == self.limits.depth {
            return self.error(format!("exceeded maximum template depth ({})", self.limits.depth));
        }
        let data = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Invalid,
        };
        self.depth += 1;
        let outer_body = std::mem::replace(&mut self.body, name);
        // A template sees no variables of its caller, and its `$` is its own data.
        let outer_vars = std::mem::replace(&mut self.vars, vec![("$", data.clone())]);
        let done = self.list(&data, body);
        self.vars = outer_vars;
        self.body = outer_body;
        self.depth -= 1;
        done
    }

    fn range(&mut self, dot: &Value<'a>, branch: &'a Branch) -> Step<()> {
        let (value, _) = self.pipeline(dot, &branch.pipe)?.indirect();
        let mark = self.vars.len();
        let mut any = false;
        match value.kind() {
            Kind::Slice => {
                let ty = value.element_type();
                for (i, json) in value.elements().iter().enumerate() {
                    any = true;
                    let index = Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                    if !self.iteration(branch, mark, index, &Value::typed(ty, Some(json)))? {
                        return Ok(());
                    }
                }
            }
            Kind::Map => {
                let ty = value.element_type();
                self.charge(value.len_of_map().saturating_mul(BYTES_A_STEP / 4))?;
                for (key, json) in value.entries() {
                    any = true;
                    if !self.iteration(branch, mark, Value::Str(key.into()), &Value::typed(ty, Some(json)))? {
                        return Ok(());
                    }
                }
            }
            Kind::Int => {
                if branch.pipe.decl.len() > 1 {
                    let value = print(&[value]);
                    return self.error(format!("can't use {value} to iterate over more than one variable"));
                }
                for i in 0..value.as_int() {
                    any = true;
                    if !self.iteration(branch, mark, Value::Int(i), &Value::Int(i))? {
                        return Ok(());
                    }
                }
            }
            Kind::Invalid => {}
            _ => {
                let value = print(&[value]);
                return self.error(format!("range can't iterate over {value}"));
            }
        }
        match &branch.otherwise {
            Some(nodes) if !any => self.list(dot, nodes),
            _ => Ok(()),
        }
    }

    /// Executes one iteration of a range's body. Returns false after `{{break}}`.
    fn iteration(
        &mut self,
        branch: &'a Branch,
        mark: usize,
        index: Value<'a>,
        element: &Value<'a>,
    ) -> Step<bool> {
        self.tick()?;
        let decl = &branch.pipe.decl;
        if branch.pipe.is_assign {
            if let [first, second] = &decl[..] {
                self.set(first, index)?;
                self.set(second, element.clone())?;
            } else if let [only] = &decl[..] {
                self.set(only, element.clone())?;
            }
        } else {
            // The pipeline has declared these variables, so they are the last ones.
            let declared = self.vars.len() - decl.len();
            match &mut self.vars[declared..] {
                [only] => only.1 = element.clone(),
                [first, second] => (first.1, second.1) = (index, element.clone()),
                _ => {}
            }
        }
        let done = self.list(element, &branch.body);
        self.vars.truncate(mark);
        match done {
            Ok(()) | Err(Stop::Continue) => Ok(true),
            Err(Stop::Break) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn set(&mut self, name: &str, value: Value<'a>) -> Step<()> {
        if let Some(slot) = self.slot(name)? {
            *slot = value;
        }
        Ok(())
    }

    /// Finds a variable, the innermost of its name.
    fn slot(&mut self, name: &str) -> Step<Option<&mut Value<'a>>> {
        let found = self.vars.iter().rposition(|(known, _)| *known == name);
        self.spend((self.vars.len() - found.unwrap_or_default()) / VARIABLES_A_STEP)?;
        Ok(found.map(|at| &mut self.vars[at].1))
    }

    // === pipelines and commands ===

    pub(crate) fn pipeline(&mut self, dot: &Value<'a>, pipe: &'a Pipe) -> Step<Value<'a>> {
        self.at(Quoted::Pipe(pipe));
        self.tick()?;
        let mut value = None;
        for command in &pipe.cmds {
            value = Some(self.command(dot, command, value)?);
        }
        let value = value.unwrap_or(Value::Invalid);
        for name in &pipe.decl {
            if pipe.is_assign {
                self.set(name, value.clone())?;
            } else {
                self.vars.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Value<'a>, command: &'a Command, last: Option<Value<'a>>) -> Step<Value<'a>> {
        let first = &command.args[0];
        match first {
            Expr::Field(_, path) => {
                self.at_expr(first);
                return self.field_chain(dot, first, dot.clone(), path, &command.args, last.as_ref());
            }
            Expr::Chain { .. } => return self.chain(dot, first, &command.args, last.as_ref()),
            Expr::Ident(_, name) => {
                self.at_expr(first);
                return self.call(dot, name, Quoted::Command(command), &command.args, last);
            }
            Expr::Pipe(pipe) => {
                self.not_a_function(&command.args, last.as_ref())?;
                return self.pipeline(dot, pipe);
            }
            Expr::Variable(..) => return self.variable(dot, first, &command.args, last.as_ref()),
            _ => {}
        }
        self.at_expr(first);
        self.not_a_function(&command.args, last.as_ref())?;
        self.literal(dot, first)
    }

    /// Evaluates constants and dot.
    pub(crate) fn literal(&mut self, dot: &Value<'a>, expr: &'a Expr) -> Step<Value<'a>> {
        match expr {
            Expr::Bool(_, value) => Ok(Value::Bool(*value)),
            Expr::Dot(_) => Ok(dot.clone()),
            Expr::Nil(_) => self.error("nil is not a command"),
            Expr::Number(_, number) => self.constant(number),
            Expr::Str { text, .. } => Ok(Value::Str(Cow::Borrowed(text))),
            other => self.error(format!("can't evaluate command {}", quote(&other.to_string()))),
        }
    }

    /// Returns an untyped number with the type that its notation implies.
    fn constant(&mut self, number: &Number) -> Step<Value<'a>> {
        let text = &number.text;
        let hex = text.to_ascii_lowercase().contains("0x");
        let floating = !text.starts_with('\'') && !hex && text.contains(['.', 'e', 'E', 'p', 'P']);
        match (number.float, number.int, number.uint) {
            (Some(value), ..) if floating => Ok(Value::Float(value)),
            (_, Some(value), _) => Ok(Value::Int(value)),
            (_, None, Some(_)) => self.error(format!("{text} overflows int")),
            (Some(value), ..) => Ok(Value::Float(value)),
            _ => self.error(format!("bad number syntax: {text}")),
        }
    }

    fn not_a_function(&mut self, args: &'a [Expr], last: Option<&Value<'a>>) -> Step<()> {
        if args.len() > 1 || last.is_some() {
            return self.error(format!("can't give argument to non-function {}", args[0]));
        }
        Ok(())
    }

    pub(crate) fn variable(
        &mut self,
        dot: &Value<'a>,
        expr: &'a Expr,
        args: &'a [Expr],
        last: Option<&Value<'a>>,
    ) -> Step<Value<'a>> {
        let Expr::Variable(_, path) = expr else { return Ok(Value::Invalid) };
        self.at_expr(expr);
        let Some(value) = self.slot(&path[0])?.cloned() else {
            return self.error(format!("undefined variable: {}", path[0]));
        };
        if path.len() == 1 {
            self.not_a_function(args, last)?;
            return Ok(value);
        }
        self.field_chain(dot, expr, value, &path[1..], args, last)
    }
}
