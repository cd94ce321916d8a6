//! The parsed form of a template, and its source form for error messages.

use std::{collections::BTreeSet, fmt};

/// Byte offset in the template's text.
pub(crate) type Pos = usize;

/// One piece of a template body.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// Literal text between actions.
    Text { pos: Pos, text: Box<str> },
    /// `{{pipeline}}`.
    Action { pos: Pos, pipe: Pipe },
    /// `{{if}}`.
    If(Branch),
    /// `{{with}}`.
    With(Branch),
    /// `{{range}}`.
    Range(Branch),
    /// `{{template "name" pipeline}}`.
    Template { pos: Pos, name: Box<str>, pipe: Option<Pipe> },
    /// `{{break}}`.
    Break { pos: Pos },
    /// `{{continue}}`.
    Continue { pos: Pos },
}

/// The common form of `if`, `with` and `range`.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) pos: Pos,
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// Commands separated by `|`, with the variables that take the result.
#[derive(Debug, Clone)]
pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    /// `$x = …` instead of `$x := …`.
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<Box<str>>,
    pub(crate) cmds: Vec<Command>,
}

/// One stage of a pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) pos: Pos,
    pub(crate) args: Vec<Expr>,
}

/// A number as written. Its type is decided where it is used, as in Go.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub(crate) text: Box<str>,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
}

/// An operand.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Dot(Pos),
    Nil(Pos),
    Bool(Pos, bool),
    Number(Pos, Number),
    /// `quoted` is the source text, and `text` its value.
    Str {
        pos: Pos,
        quoted: Box<str>,
        text: Box<str>,
    },
    Field(Pos, Vec<Box<str>>),
    /// The first element is the variable, including its `$`.
    Variable(Pos, Vec<Box<str>>),
    Ident(Pos, Box<str>),
    Chain {
        pos: Pos,
        node: Box<Self>,
        fields: Vec<Box<str>>,
    },
    Pipe(Pipe),
}

impl Expr {
    /// The position for errors about this operand.
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Self::Dot(pos)
            | Self::Nil(pos)
            | Self::Bool(pos, _)
            | Self::Number(pos, _)
            | Self::Str { pos, .. }
            | Self::Field(pos, _)
            | Self::Variable(pos, _)
            | Self::Ident(pos, _)
            | Self::Chain { pos, .. } => *pos,
            Self::Pipe(pipe) => pipe.pos,
        }
    }
}

impl Node {
    /// The position for errors about this node.
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Self::Text { pos, .. }
            | Self::Action { pos, .. }
            | Self::Template { pos, .. }
            | Self::Break { pos }
            | Self::Continue { pos } => *pos,
            Self::If(branch) | Self::With(branch) | Self::Range(branch) => branch.pos,
        }
    }
}

// === search ===

impl Node {
    /// Adds the fields that are read from the top of the data. `top` is whether `.` is the top.
    pub(crate) fn fields(&self, top: bool, found: &mut BTreeSet<String>) {
        match self {
            Self::Text { .. } | Self::Break { .. } | Self::Continue { .. } => {}
            Self::Action { pipe, .. } => pipe.fields(top, found),
            Self::Template { pipe, .. } => pipe.iter().for_each(|pipe| pipe.fields(top, found)),
            Self::If(branch) | Self::With(branch) | Self::Range(branch) => {
                branch.pipe.fields(top, found);
                let inner = top && matches!(self, Self::If(_));
                branch.body.iter().for_each(|node| node.fields(inner, found));
                branch.otherwise.iter().flatten().for_each(|node| node.fields(top, found));
            }
        }
    }
}

impl Pipe {
    fn fields(&self, top: bool, found: &mut BTreeSet<String>) {
        self.cmds.iter().flat_map(|command| &command.args).for_each(|arg| arg.fields(top, found));
    }
}

impl Expr {
    fn fields(&self, top: bool, found: &mut BTreeSet<String>) {
        match self {
            Self::Field(_, path) if top => {
                found.insert(format!(".{}", path.join(".")));
            }
            Self::Variable(_, path) if path.len() > 1 && &*path[0] == "$" => {
                found.insert(format!(".{}", path[1..].join(".")));
            }
            Self::Chain { node, .. } => node.fields(top, found),
            Self::Pipe(pipe) => pipe.fields(top, found),
            _ => {}
        }
    }
}

// === source form ===

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { text, .. } => f.write_str(text),
            Self::Action { pipe, .. } => write!(f, "{{{{{pipe}}}}}"),
            Self::If(branch) => branch.write("if", f),
            Self::With(branch) => branch.write("with", f),
            Self::Range(branch) => branch.write("range", f),
            Self::Template { name, pipe, .. } => {
                write!(f, "{{{{template {name:?}")?;
                if let Some(pipe) = pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            Self::Break { .. } => f.write_str("{{break}}"),
            Self::Continue { .. } => f.write_str("{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, keyword: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{keyword} {}}}}}", self.pipe)?;
        for node in &self.body {
            write!(f, "{node}")?;
        }
        if let Some(otherwise) = &self.otherwise {
            f.write_str("{{else}}")?;
            for node in otherwise {
                write!(f, "{node}")?;
            }
        }
        f.write_str("{{end}}")
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.decl.is_empty() {
            f.write_str(&self.decl.join(", "))?;
            f.write_str(if self.is_assign { " = " } else { " := " })?;
        }
        for (i, command) in self.cmds.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            command.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            match arg {
                Expr::Pipe(pipe) => write!(f, "({pipe})")?,
                other => other.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot(_) => f.write_str("."),
            Self::Nil(_) => f.write_str("nil"),
            Self::Bool(_, value) => value.fmt(f),
            Self::Number(_, number) => f.write_str(&number.text),
            Self::Str { quoted, .. } => f.write_str(quoted),
            Self::Field(_, path) => path.iter().try_for_each(|name| write!(f, ".{name}")),
            Self::Variable(_, path) => f.write_str(&path.join(".")),
            Self::Ident(_, name) => f.write_str(name),
            Self::Chain { node, fields, .. } => {
                match &**node {
                    Self::Pipe(pipe) => write!(f, "({pipe})")?,
                    other => other.fmt(f)?,
                }
                fields.iter().try_for_each(|name| write!(f, ".{name}"))
            }
            Self::Pipe(pipe) => pipe.fmt(f),
        }
    }
}
