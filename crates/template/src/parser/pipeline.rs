//! Pipelines: declarations, commands and their operands.

use super::Parser;
use crate::{
    lexer::{Kind, Token},
    node::{Command, Expr, Pipe, Pos},
    number::number,
    quote::{quote, unquote},
};

/// The most variables that are known at one place: each use of a variable searches them, and a template may have a hundred thousand uses.
const MAX_VARIABLES: usize = 256;

impl Parser<'_, '_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe, String> {
        self.enter()?;
        let mut pipe =
            Pipe { pos: self.peek_non_space().pos, is_assign: false, decl: Vec::new(), cmds: Vec::new() };
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawStr
                | Kind::Str
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back(token);
                    pipe.cmds.push(self.command()?);
                }
                _ => return Err(self.unexpected(&token, context)),
            }
        }
        if pipe.cmds.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (i, command) in pipe.cmds.iter().enumerate().skip(1) {
            if matches!(
                command.args[0],
                Expr::Bool(..) | Expr::Dot(_) | Expr::Nil(_) | Expr::Number(..) | Expr::Str { .. }
            ) {
                return Err(self.error(format!("non executable command in pipeline stage {}", i + 1)));
            }
        }
        self.nesting -= 1;
        Ok(pipe)
    }

    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Result<(), String> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next_non_space();
            let spaced = self.peek().kind == Kind::Space;
            let next = self.peek_non_space();
            let ends = matches!(next.kind, Kind::Assign | Kind::Declare);
            let comma = next.kind == Kind::Char && next.val == ",";
            if !ends && !comma {
                if spaced {
                    let space = Token { kind: Kind::Space, val: " ".into(), ..next };
                    self.back(space);
                }
                self.back(variable);
                return Ok(());
            }
            self.next_non_space();
            pipe.decl.push(variable.val.clone().into());
            if !self.vars.iter().any(|known| **known == *variable.val) {
                if self.vars.len() > MAX_VARIABLES {
                    return Err(self.error(format!("exceeded the limit of {MAX_VARIABLES} variables")));
                }
                self.vars.push(variable.val.into());
            }
            if ends {
                pipe.is_assign = next.kind == Kind::Assign;
                return Ok(());
            }
            if context != "range" || pipe.decl.len() >= 2 {
                return Err(self.error(format!("too many declarations in {context}")));
            }
            if !matches!(self.peek_non_space().kind, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                return Err(self.error("range can only initialize variables"));
            }
        }
    }

    fn command(&mut self) -> Result<Command, String> {
        let mut command = Command { pos: self.peek_non_space().pos, args: Vec::new() };
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                command.args.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelim | Kind::RightParen => {
                    self.back(token);
                    break;
                }
                Kind::Pipe => break,
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        if command.args.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(command)
    }

    // === operands ===

    fn operand(&mut self) -> Result<Option<Expr>, String> {
        let Some(node) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(node));
        }
        let pos = self.peek().pos;
        let mut fields: Vec<Box<str>> = Vec::new();
        while self.peek().kind == Kind::Field {
            let token = self.next();
            fields.push(token.val[1..].into());
        }
        Ok(Some(match node {
            Expr::Field(_, mut path) => {
                path.append(&mut fields);
                Expr::Field(pos, path)
            }
            Expr::Variable(_, mut path) => {
                path.append(&mut fields);
                Expr::Variable(pos, path)
            }
            Expr::Bool(..) | Expr::Str { .. } | Expr::Number(..) | Expr::Nil(_) | Expr::Dot(_) => {
                return Err(self.error(format!("unexpected . after term {}", quote(&node.to_string()))));
            }
            node => Expr::Chain { pos, node: Box::new(node), fields },
        }))
    }

    fn term(&mut self) -> Result<Option<Expr>, String> {
        let token = self.next_non_space();
        let pos: Pos = token.pos;
        Ok(Some(match token.kind {
            Kind::Identifier => {
                if !(self.is_function)(&token.val) {
                    return Err(self.error(format!("function {} not defined", quote(&token.val))));
                }
                Expr::Ident(pos, token.val.into())
            }
            Kind::Dot => Expr::Dot(pos),
            Kind::Nil => Expr::Nil(pos),
            Kind::Variable => {
                if !self.vars.iter().any(|v| **v == *token.val) {
                    return Err(self.error(format!("undefined variable {}", quote(&token.val))));
                }
                Expr::Variable(pos, vec![token.val.into()])
            }
            Kind::Field => Expr::Field(pos, vec![token.val[1..].into()]),
            Kind::Bool => Expr::Bool(pos, token.val == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                Expr::Number(pos, number(&token).map_err(|message| self.error(message))?)
            }
            Kind::LeftParen => Expr::Pipe(self.pipeline("parenthesized pipeline", Kind::RightParen)?),
            Kind::Str | Kind::RawStr => {
                let text = unquote(&token.val).ok_or_else(|| self.error("invalid syntax"))?;
                Expr::Str { pos, quoted: token.val.into(), text: text.into() }
            }
            _ => {
                self.back(token);
                return Ok(None);
            }
        }))
    }
}
