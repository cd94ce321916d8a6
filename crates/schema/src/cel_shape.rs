//! Which part of a variable an expression looks at.
//!
//! The `cel` crate copies values deeply: a field when it is selected, an element in each turn of a loop, a target at each
//! call of a method. A rule over a list of routes that asks for names copied every route with all that is in it, many
//! times. What a rule cannot see is therefore not given to it.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// What is looked at in a value, and in what is in it. Elements of a list are always there, if only as nulls: how many
/// there are can be asked for. So are scalars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Everything.
    whole: bool,
    /// Which fields there are.
    keys: bool,
    fields: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
}

/// How a part of a value is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look<'a> {
    /// Not at all.
    Away,
    /// Whether it is there.
    Presence,
    /// In this way.
    Into(&'a Shape),
}

/// The way from a variable to what an expression denotes.
type Way = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
}

/// The parts of the free variables `names` that an expression looks at, in that order.
pub(super) fn of<const N: usize>(expression: &IdedExpr, names: [&str; N]) -> [Shape; N] {
    let variables = names.iter().enumerate();
    let bound = variables.map(|(variable, name)| ((*name).to_owned(), Some((variable, Way::new()))));
    let mut looking = Looking { shapes: names.map(|_| Shape::default()), bound: bound.collect() };
    looking.all(expression);
    looking.shapes
}

struct Looking<const N: usize> {
    shapes: [Shape; N],
    /// What names stand for, the innermost last; none where that is no part of a variable.
    bound: Vec<(String, Option<(usize, Way)>)>,
}

// === impl Shape ===

impl Shape {
    /// The shape of everything.
    pub(super) const fn whole() -> Self {
        Self { whole: true, keys: true, fields: BTreeMap::new(), items: None }
    }

    /// Takes in what another one looks at.
    pub(super) fn add(&mut self, other: &Self) {
        self.whole |= other.whole;
        self.keys |= other.keys;
        for (name, shape) in &other.fields {
            self.fields.entry(name.clone()).or_default().add(shape);
        }
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().add(items);
        }
    }

    /// How a field is looked at that goes by one of `names`.
    pub(super) fn field(&self, names: [&str; 2]) -> Look<'_> {
        if self.whole {
            return Look::Into(self);
        }
        match names.iter().find_map(|name| self.fields.get(*name)) {
            Some(shape) => Look::Into(shape),
            None if self.keys => Look::Presence,
            None => Look::Away,
        }
    }

    /// How the elements are looked at.
    pub(super) fn items(&self) -> Look<'_> {
        if self.whole {
            return Look::Into(self);
        }
        self.items.as_deref().map_or(Look::Presence, Look::Into)
    }

    fn at(&mut self, way: &[Step]) -> &mut Self {
        way.iter().fold(self, |shape, step| match step {
            Step::Field(name) => shape.fields.entry(name.clone()).or_default(),
            Step::Item => shape.items.get_or_insert_default(),
        })
    }
}

// === impl Looking ===

impl<const N: usize> Looking<N> {
    /// The value of the expression goes where nobody follows it.
    fn all(&mut self, expression: &IdedExpr) {
        if let Some((variable, way)) = self.denoted(expression) {
            self.shapes[variable].at(&way).whole = true;
        }
    }

    /// What the expression denotes, if that is a part of a variable of which nothing is looked at yet.
    fn denoted(&mut self, expression: &IdedExpr) -> Option<(usize, Way)> {
        match &expression.expr {
            Expr::Ident(name) => {
                self.bound.iter().rev().find(|(bound, _)| bound == name).and_then(|(_, way)| way.clone())
            }
            Expr::Select(select) => {
                let (variable, mut way) = self.denoted(&select.operand)?;
                way.push(Step::Field(select.field.clone()));
                // That it is there is part of the shape of what holds it.
                self.shapes[variable].at(&way);
                (!select.test).then_some((variable, way))
            }
            Expr::Call(call) => {
                match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
                    (operators::INDEX, None, [operand, index]) => return self.index(operand, index),
                    ("size", None, [operand]) => self.keys(operand),
                    ("size", Some(operand), []) => self.keys(operand),
                    (_, target, arguments) => {
                        for part in target.as_deref().into_iter().chain(arguments) {
                            self.all(part);
                        }
                    }
                }
                None
            }
            Expr::Comprehension(fold) => {
                let range = self.denoted(&fold.iter_range);
                let item = range.map(|(variable, mut way)| {
                    self.shapes[variable].at(&way).keys = true;
                    way.push(Step::Item);
                    (variable, way)
                });
                self.all(&fold.accu_init);
                let outside = self.bound.len();
                self.bound.push((fold.iter_var.clone(), item));
                self.bound.push((fold.accu_var.clone(), None));
                self.all(&fold.loop_cond);
                self.all(&fold.loop_step);
                self.all(&fold.result);
                self.bound.truncate(outside);
                None
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.all(element);
                }
                None
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.entry(&entry.expr);
                }
                None
            }
            Expr::Struct(made) => {
                for entry in &made.entries {
                    self.entry(&entry.expr);
                }
                None
            }
            Expr::Literal(_) | Expr::Unspecified => None,
        }
    }

    fn index(&mut self, operand: &IdedExpr, index: &IdedExpr) -> Option<(usize, Way)> {
        let step = match &index.expr {
            Expr::Literal(LiteralValue::Int(_)) => Step::Item,
            Expr::Literal(LiteralValue::String(name)) => Step::Field(name.inner().to_owned()),
            _ => {
                self.all(operand);
                self.all(index);
                return None;
            }
        };
        let (variable, mut way) = self.denoted(operand)?;
        way.push(step);
        self.shapes[variable].at(&way);
        Some((variable, way))
    }

    fn keys(&mut self, operand: &IdedExpr) {
        if let Some((variable, way)) = self.denoted(operand) {
            self.shapes[variable].at(&way).keys = true;
        }
    }

    fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.all(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.all(&entry.key);
                self.all(&entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::cel::Program, Shape, of};

    /// A shape in words: `*` is everything, `#` which fields there are.
    fn shown(shape: &Shape) -> String {
        if shape.whole {
            return "*".to_owned();
        }
        let mut parts: Vec<String> = shape.keys.then(|| "#".to_owned()).into_iter().collect();
        parts.extend(shape.fields.iter().map(|(name, shape)| format!("{name}{}", shown(shape))));
        parts.extend(shape.items.iter().map(|shape| format!("[]{}", shown(shape))));
        format!("({})", parts.join(" "))
    }

    fn looks_at(rule: &str) -> [String; 2] {
        let program = Program::compile(rule).unwrap().runnable();
        of(&program.expression, ["self", "oldSelf"]).map(|shape| shown(&shape))
    }

    #[test]
    fn a_rule_is_shown_what_it_names_and_nothing_else() {
        for (rule, shape) in [
            ("self", "*"),
            ("has(self.a)", "(a())"),
            ("has(self.a.b) && self.a.b > 1", "(a(b*))"),
            ("size(self.a) > 0 || self.b.size() > 0", "(a(#) b(#))"),
            ("self.a.startsWith('x')", "(a*)"),
            ("self.a in ['x']", "(a*)"),
            ("'x' in self.a", "(a*)"),
            ("self[0].a == 1", "([](a*))"),
            ("self['a'].b == 1", "(a(b*))"),
            ("self[self.a] == 1", "*"),
            ("self.all(x, has(x.a) && x.b == 1)", "(# [](a() b*))"),
            ("self.all(x, self.exists_one(y, x.a == y.a))", "(# [](a*))"),
            ("self.a.map(x, x.b).size() > 0", "(a(# [](b*)))"),
            ("self.a.filter(x, x.b == 1).size() > 0", "(a(# []*))"),
            ("self.a.all(self, self.b == 1) && self.c == 1", "(a(# [](b*)) c*)"),
            ("(has(self.a) ? self.b : self.c) == 1", "(a() b* c*)"),
            ("self.?a.?b.orValue(1) == 1", "(a(b*))"),
        ] {
            assert_eq!(looks_at(rule)[0], shape, "{rule}");
        }
    }

    #[test]
    fn two_shapes_show_what_either_does() {
        let shape = |rule: &str| {
            let program = Program::compile(rule).unwrap().runnable();
            let [shape] = of(&program.expression, ["self"]);
            shape
        };
        let mut both = shape("self.a.all(x, has(x.b))");
        both.add(&shape("self.a[0].c == 1 && has(self.d)"));
        assert_eq!(shown(&both), "(a(# [](b() c*)) d())");
        both.add(&shape("self.d == 1"));
        assert_eq!(shown(&both), "(a(# [](b() c*)) d*)");
    }

    #[test]
    fn old_and_new_are_looked_at_each_for_itself() {
        assert_eq!(looks_at("self.a == oldSelf.b"), ["(a*)", "(b*)"]);
        assert_eq!(looks_at("self == oldSelf"), ["*", "*"]);
        assert_eq!(looks_at("oldSelf.all(x, x in self)"), ["*", "(# []*)"]);
    }
}
