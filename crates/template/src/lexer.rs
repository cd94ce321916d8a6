//! Splits text into tokens, with the scanner rules and the error texts of Go's text/template.

use crate::quote::quote;

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Kind {
    Error,
    Eof,
    Text,
    LeftDelim,
    RightDelim,
    LeftParen,
    RightParen,
    Space,
    Assign,
    Declare,
    Pipe,
    /// A printable character without a special meaning. Only `,` is useful.
    Char,
    Bool,
    CharConstant,
    Number,
    Complex,
    Str,
    RawStr,
    Identifier,
    Field,
    Variable,
    // The keywords come last, so that a comparison tells them from the others.
    Dot,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn is_keyword(self) -> bool {
        self >= Self::Dot
    }
}

/// A token; `val` is its source text, or the message of an [`Kind::Error`].
#[derive(Debug, Clone)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) pos: usize,
    pub(crate) line: usize,
    pub(crate) val: std::borrow::Cow<'s, str>,
}

impl Token<'_> {
    /// The token as quoted in "unexpected …" messages.
    pub(crate) fn describe(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.val.clone().into_owned(),
            kind if kind.is_keyword() => format!("<{}>", self.val),
            _ if self.val.chars().count() > 10 => {
                format!("{}...", quote(&self.val.chars().take(10).collect::<String>()))
            }
            _ => quote(&self.val),
        }
    }
}

/// Scans a template on demand.
#[derive(Debug)]
pub(crate) struct Lexer<'s> {
    input: &'s str,
    pos: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    inside: bool,
    /// Whether an error or the end was returned. After that, only the end is returned.
    done: bool,
}

fn is_space(c: Option<char>) -> bool {
    matches!(c, Some(' ' | '\t' | '\r' | '\n'))
}

fn is_alphanumeric(c: Option<char>) -> bool {
    c.is_some_and(|c| c == '_' || c.is_alphanumeric())
}

fn right_trim_marker(s: &str) -> bool {
    let bytes = s.as_bytes();
    bytes.len() >= 2 && is_space(Some(char::from(bytes[0]))) && bytes[1] == b'-'
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

impl<'s> Lexer<'s> {
    pub(crate) fn new(input: &'s str) -> Self {
        Self { input, pos: 0, start: 0, line: 1, start_line: 1, paren_depth: 0, inside: false, done: false }
    }

    /// Returns the next token. After an error or the end, always returns the end.
    pub(crate) fn next(&mut self) -> Token<'s> {
        if self.done {
            return Token { kind: Kind::Eof, pos: self.pos, line: self.line, val: "".into() };
        }
        loop {
            let token = if self.inside { Some(self.action()) } else { self.text() };
            if let Some(token) = token {
                self.done = matches!(token.kind, Kind::Error | Kind::Eof);
                return token;
            }
        }
    }

    // === helpers ===

    fn rest(&self) -> &'s str {
        &self.input[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    /// Moves to an absolute position, and counts the lines in between.
    fn advance_to(&mut self, pos: usize) {
        self.line += self.input[self.pos..pos].matches('\n').count();
        self.pos = pos;
    }

    fn ignore(&mut self) {
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn emit(&mut self, kind: Kind) -> Token<'s> {
        let token = Token {
            kind,
            pos: self.start,
            line: self.start_line,
            val: self.input[self.start..self.pos].into(),
        };
        self.ignore();
        token
    }

    fn error(&mut self, message: impl Into<String>) -> Token<'s> {
        Token { kind: Kind::Error, pos: self.start, line: self.start_line, val: message.into().into() }
    }

    fn accept(&mut self, set: &str) -> bool {
        if self.peek().is_some_and(|c| set.contains(c)) {
            self.bump();
            return true;
        }
        false
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }

    /// Whether a right delimiter follows, and whether it has a trim marker.
    fn at_right_delim(&self) -> (bool, bool) {
        let rest = self.rest();
        if right_trim_marker(rest) && rest[2..].starts_with(RIGHT) {
            return (true, true);
        }
        (rest.starts_with(RIGHT), false)
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(RIGHT),
        }
    }

    // === states ===

    /// Scans literal text up to the next action. Afterwards the scanner is inside the action.
    fn text(&mut self) -> Option<Token<'s>> {
        let Some(offset) = self.rest().find(LEFT) else {
            self.advance_to(self.input.len());
            return Some(if self.pos > self.start { self.emit(Kind::Text) } else { self.emit(Kind::Eof) });
        };
        if offset > 0 {
            let delim = self.pos + offset;
            let after = &self.input[delim + LEFT.len()..];
            let mut end = delim;
            if after.as_bytes().first() == Some(&b'-') && is_space(after[1..].chars().next()) {
                end = self.start + self.input[self.start..delim].trim_end_matches(SPACE).len();
            }
            self.advance_to(end);
            let token = (self.pos > self.start).then(|| self.emit(Kind::Text));
            self.advance_to(delim);
            self.ignore();
            if token.is_some() {
                return token;
            }
        }
        self.left_delim()
    }

    fn left_delim(&mut self) -> Option<Token<'s>> {
        self.advance_to(self.pos + LEFT.len());
        let rest = self.rest();
        let trim = rest.starts_with('-') && is_space(rest[1..].chars().next());
        let marker = if trim { 2 } else { 0 };
        if rest[marker..].starts_with("/*") {
            self.advance_to(self.pos + marker);
            self.ignore();
            return self.comment();
        }
        let token = self.emit(Kind::LeftDelim);
        self.advance_to(self.pos + marker);
        self.ignore();
        self.inside = true;
        self.paren_depth = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token<'s>> {
        self.advance_to(self.pos + 2);
        let Some(end) = self.rest().find("*/") else {
            return Some(self.error("unclosed comment"));
        };
        self.advance_to(self.pos + end + 2);
        if !self.at_right_delim().0 {
            return Some(self.error("comment ends before closing delimiter"));
        }
        // The delimiter belongs to the comment.
        self.right_delim();
        None
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.advance_to(self.pos + rest.len() - rest.trim_start_matches(SPACE).len());
        self.ignore();
    }

    fn right_delim(&mut self) -> Token<'s> {
        let (_, trim) = self.at_right_delim();
        if trim {
            self.advance_to(self.pos + 2);
            self.ignore();
        }
        self.advance_to(self.pos + RIGHT.len());
        let token = self.emit(Kind::RightDelim);
        if trim {
            self.skip_space();
        }
        self.inside = false;
        token
    }

    fn action(&mut self) -> Token<'s> {
        if self.at_right_delim().0 {
            return if self.paren_depth == 0 {
                self.right_delim()
            } else {
                self.error("unclosed left paren")
            };
        }
        let Some(c) = self.peek() else {
            return self.error("unclosed action");
        };
        if is_space(Some(c)) {
            return self.space();
        }
        if c == '_' || c.is_alphanumeric() && !c.is_ascii_digit() {
            return self.identifier();
        }
        self.bump();
        match c {
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.bump() == Some('=') {
                    self.emit(Kind::Declare)
                } else {
                    self.error("expected :=")
                }
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::Str, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => match self.rest().find('`') {
                Some(end) => {
                    self.advance_to(self.pos + end + 1);
                    self.emit(Kind::RawStr)
                }
                None => self.error("unterminated raw quoted string"),
            },
            '$' => self.field_or_variable(Kind::Variable),
            '.' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => self.field_or_variable(Kind::Field),
            '.' | '+' | '-' | '0'..='9' => {
                self.pos = self.start;
                self.number()
            }
            '(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            ')' if self.paren_depth == 0 => self.error("unexpected right paren"),
            ')' => {
                self.paren_depth -= 1;
                self.emit(Kind::RightParen)
            }
            c if c.is_ascii_graphic() => self.emit(Kind::Char),
            c => {
                let message = format!("unrecognized character in action: {}", code_point(Some(c)));
                self.error(message)
            }
        }
    }

    fn space(&mut self) -> Token<'s> {
        let mut count = 0;
        while is_space(self.peek()) {
            self.bump();
            count += 1;
        }
        // A minus after the last space may be part of the closing delimiter. The space is ASCII, so a character begins there.
        let last = &self.input[self.pos - 1..];
        if right_trim_marker(last) && last[2..].starts_with(RIGHT) {
            self.pos -= 1;
            if self.input.as_bytes()[self.pos] == b'\n' {
                self.line -= 1;
            }
            if count == 1 {
                return self.right_delim();
            }
        }
        self.emit(Kind::Space)
    }

    fn identifier(&mut self) -> Token<'s> {
        let mut token = self.word(Kind::Identifier);
        if token.kind == Kind::Identifier {
            token.kind = match &*token.val {
                "block" => Kind::Block,
                "break" => Kind::Break,
                "continue" => Kind::Continue,
                "define" => Kind::Define,
                "else" => Kind::Else,
                "end" => Kind::End,
                "if" => Kind::If,
                "nil" => Kind::Nil,
                "range" => Kind::Range,
                "template" => Kind::Template,
                "with" => Kind::With,
                "true" | "false" => Kind::Bool,
                _ => Kind::Identifier,
            };
        }
        token
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token<'s> {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Field { Kind::Dot } else { kind });
        }
        self.word(kind)
    }

    fn word(&mut self, kind: Kind) -> Token<'s> {
        while is_alphanumeric(self.peek()) {
            self.bump();
        }
        if !self.at_terminator() {
            let message = format!("bad character {}", code_point(self.peek()));
            return self.error(message);
        }
        self.emit(kind)
    }

    fn quoted(&mut self, end: char, kind: Kind, unterminated: &str) -> Token<'s> {
        loop {
            match self.bump() {
                Some('\\') => {
                    if matches!(self.bump(), None | Some('\n')) {
                        return self.error(unterminated);
                    }
                }
                None | Some('\n') => return self.error(unterminated),
                Some(c) if c == end => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) -> Token<'s> {
        let mut kind = Kind::Number;
        let mut valid = self.scan_number();
        if valid && matches!(self.peek(), Some('+' | '-')) {
            kind = Kind::Complex;
            valid = self.scan_number() && self.input[..self.pos].ends_with('i');
        }
        if !valid {
            let message = format!("bad number syntax: {}", quote(&self.input[self.start..self.pos]));
            return self.error(message);
        }
        self.emit(kind)
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if digits == DECIMAL && self.accept("eE") {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        if digits == HEX && self.accept("pP") {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if is_alphanumeric(self.peek()) {
            self.bump();
            return false;
        }
        true
    }
}

/// Go's `%#U`.
fn code_point(c: Option<char>) -> String {
    match c {
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
        Some(c) if c.is_control() => format!("U+{:04X}", u32::from(c)),
        Some(c) => format!("U+{:04X} '{c}'", u32::from(c)),
    }
}
