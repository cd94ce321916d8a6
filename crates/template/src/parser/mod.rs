//! Parses tokens into nodes, with the grammar and the error texts of Go's text/template.

mod pipeline;

use std::collections::{BTreeMap, VecDeque};

use crate::{
    lexer::{Kind, Lexer, Token},
    node::{Branch, Node},
    quote::unquote,
};

/// The deepest nesting of blocks and parentheses: far more than useful templates need, and safe for a thread's stack.
const MAX_NESTING: usize = 100;

/// The bodies in a text: the template itself and its `{{define}}`s.
#[derive(Debug)]
pub(crate) struct ParsedTemplate {
    pub(crate) root: Vec<Node>,
    pub(crate) defines: BTreeMap<Box<str>, Vec<Node>>,
}

/// Parses `text`. `Err` has the message with its `template: NAME:LINE:` prefix.
pub(crate) fn parse(
    name: &str,
    text: &str,
    is_function: &dyn Fn(&str) -> bool,
) -> Result<ParsedTemplate, String> {
    let mut parser = Parser {
        name,
        lexer: Lexer::new(text),
        queue: VecDeque::new(),
        line: 1,
        action_line: 0,
        vars: vec!["$".into()],
        range_depth: 0,
        nesting: 0,
        is_function,
        defines: BTreeMap::new(),
    };
    let root = parser.root()?;
    Ok(ParsedTemplate { root, defines: parser.defines })
}

/// The next element of a node list: a node, or the `{{end}}` or `{{else}}` that ends the list.
enum Item {
    Node(Node),
    End,
    Else,
}

struct Parser<'s, 'f> {
    name: &'s str,
    lexer: Lexer<'s>,
    /// Tokens that were read ahead.
    queue: VecDeque<Token<'s>>,
    /// The line of the last token, for messages.
    line: usize,
    /// The line on which the current action starts; 0 outside of actions.
    action_line: usize,
    vars: Vec<Box<str>>,
    range_depth: usize,
    nesting: usize,
    is_function: &'f dyn Fn(&str) -> bool,
    defines: BTreeMap<Box<str>, Vec<Node>>,
}

impl<'s> Parser<'s, '_> {
    // === tokens ===

    fn next(&mut self) -> Token<'s> {
        let token = self.queue.pop_front().unwrap_or_else(|| self.lexer.next());
        self.line = token.line;
        token
    }

    fn peek(&mut self) -> &Token<'s> {
        if self.queue.is_empty() {
            let token = self.lexer.next();
            self.queue.push_back(token);
        }
        self.line = self.queue[0].line;
        &self.queue[0]
    }

    fn back(&mut self, token: Token<'s>) {
        self.queue.push_front(token);
    }

    fn next_non_space(&mut self) -> Token<'s> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'s> {
        let token = self.next_non_space();
        self.back(token.clone());
        token
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'s>, String> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(&token, context)) }
    }

    // === errors ===

    fn error(&self, message: impl std::fmt::Display) -> String {
        format!("template: {}:{}: {message}", self.name, self.line)
    }

    fn unexpected(&self, token: &Token<'_>, context: &str) -> String {
        if token.kind == Kind::Error {
            let mut extra = String::new();
            if self.action_line != 0 && self.action_line != token.line {
                let action = if token.val.ends_with(" action") { "" } else { " in action" };
                extra = format!("{action} started at {}:{}", self.name, self.action_line);
            }
            return self.error(format!("{}{extra}", token.val));
        }
        self.error(format!("unexpected {} in {context}", token.describe()))
    }

    fn enter(&mut self) -> Result<(), String> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.error("exceeded maximum nesting depth"));
        }
        Ok(())
    }

    // === lists ===

    fn root(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            if self.peek().kind == Kind::Eof {
                return Ok(nodes);
            }
            if self.peek().kind == Kind::LeftDelim {
                let delim = self.next();
                let token = self.next_non_space();
                if token.kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.back(token);
                self.back(delim);
            }
            match self.text_or_action()? {
                Item::Node(node) => nodes.push(node),
                Item::End => return Err(self.error("unexpected {{end}}")),
                Item::Else => return Err(self.error("unexpected {{else}}")),
            }
        }
    }

    fn definition(&mut self) -> Result<(), String> {
        const CONTEXT: &str = "define clause";
        let name = self.template_name(CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let body = self.separate_body(CONTEXT)?;
        self.define(name, body);
        Ok(())
    }

    /// Parses a body with its own variables, up to its `{{end}}`.
    fn separate_body(&mut self, context: &str) -> Result<Vec<Node>, String> {
        let vars = std::mem::replace(&mut self.vars, vec!["$".into()]);
        let depth = std::mem::take(&mut self.range_depth);
        let (body, end) = self.item_list()?;
        self.vars = vars;
        self.range_depth = depth;
        match end {
            Item::Else => Err(self.error(format!("unexpected {{{{else}}}} in {context}"))),
            _ => Ok(body),
        }
    }

    /// Adds a definition. It replaces an earlier one unless it is blank.
    fn define(&mut self, name: Box<str>, body: Vec<Node>) {
        let blank = body.iter().all(|n| matches!(n, Node::Text { text, .. } if text.trim().is_empty()));
        if !blank || !self.defines.contains_key(&name) {
            self.defines.insert(name, body);
        }
    }

    fn item_list(&mut self) -> Result<(Vec<Node>, Item), String> {
        self.enter()?;
        let mut nodes = Vec::new();
        loop {
            if self.peek_non_space().kind == Kind::Eof {
                return Err(self.error("unexpected EOF"));
            }
            match self.text_or_action()? {
                Item::Node(node) => nodes.push(node),
                end => {
                    self.nesting -= 1;
                    return Ok((nodes, end));
                }
            }
        }
    }

    fn text_or_action(&mut self) -> Result<Item, String> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text { pos: token.pos, text: token.val.into() })),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action()?;
                self.action_line = 0;
                Ok(item)
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    // === actions ===

    fn action(&mut self) -> Result<Item, String> {
        let token = self.next_non_space();
        Ok(Item::Node(match token.kind {
            Kind::Block => self.block(&token)?,
            Kind::Break => {
                self.loop_control("{{break}}")?;
                Node::Break { pos: token.pos }
            }
            Kind::Continue => {
                self.loop_control("{{continue}}")?;
                Node::Continue { pos: token.pos }
            }
            Kind::Else => {
                let next = self.peek_non_space();
                if !matches!(next.kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::Else);
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End);
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::With => Node::With(self.control("with")?),
            Kind::Template => self.template(&token)?,
            _ => {
                let pos = token.pos;
                self.back(token);
                Node::Action { pos, pipe: self.pipeline("command", Kind::RightDelim)? }
            }
        }))
    }

    fn loop_control(&mut self, what: &str) -> Result<(), String> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(&token, what));
        }
        if self.range_depth == 0 {
            return Err(self.error(format!("{what} outside {{{{range}}}}")));
        }
        Ok(())
    }

    fn control(&mut self, context: &str) -> Result<Branch, String> {
        self.enter()?;
        let mark = self.vars.len();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        let looping = usize::from(context == "range");
        self.range_depth += looping;
        let (body, end) = self.item_list()?;
        self.range_depth -= looping;
        let mut otherwise = None;
        if matches!(end, Item::Else) {
            // "else if" and "else with" have no end of their own: the end of the outer block closes them.
            let next = self.peek().kind;
            if context == "if" && next == Kind::If {
                self.next();
                otherwise = Some(vec![Node::If(self.control("if")?)]);
            } else if context == "with" && next == Kind::With {
                self.next();
                otherwise = Some(vec![Node::With(self.control("with")?)]);
            } else {
                let (nodes, end) = self.item_list()?;
                if matches!(end, Item::Else) {
                    return Err(self.error("expected end; found {{else}}"));
                }
                otherwise = Some(nodes);
            }
        }
        self.vars.truncate(mark);
        self.nesting -= 1;
        Ok(Branch { pos: pipe.pos, pipe, body, otherwise })
    }

    fn block(&mut self, keyword: &Token<'s>) -> Result<Node, String> {
        const CONTEXT: &str = "block clause";
        let name = self.template_name(CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let body = self.separate_body(CONTEXT)?;
        self.define(name.clone(), body);
        Ok(Node::Template { pos: keyword.pos, name, pipe: Some(pipe) })
    }

    fn template(&mut self, keyword: &Token<'s>) -> Result<Node, String> {
        const CONTEXT: &str = "template clause";
        let name = self.template_name(CONTEXT)?;
        let next = self.next_non_space();
        let pipe = if next.kind == Kind::RightDelim {
            None
        } else {
            self.back(next);
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(Node::Template { pos: keyword.pos, name, pipe })
    }

    fn template_name(&mut self, context: &str) -> Result<Box<str>, String> {
        let token = self.next_non_space();
        if !matches!(token.kind, Kind::Str | Kind::RawStr) {
            return Err(self.unexpected(&token, context));
        }
        unquote(&token.val).map(String::into_boxed_str).ok_or_else(|| self.error("invalid syntax"))
    }
}
