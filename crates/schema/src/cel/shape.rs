//! Determines which parts of a variable an expression reads.
//!
//! The `cel` crate copies values deeply: a field when it is selected, an element in each iteration of a loop, the target of
//! each method call. A rule that reads the names in a list of routes would copy every route completely, many times. So a rule
//! gets only the parts of a value that it reads.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// The parts of a value that are read. Elements of a list are always present, at least as nulls, because their number can be
/// read. Scalars are always present too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Everything is read.
    whole: bool,
    /// The names of the fields are read.
    keys: bool,
    fields: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
}

/// How a part of a value is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueAccess<'a> {
    /// The part is not read.
    Away,
    /// Only its presence is read.
    Presence,
    /// These parts of it are read.
    Into(&'a Shape),
}

/// The path from a variable to the value of an expression.
type AccessPath = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
}

/// Returns the parts of the free variables `names` that an expression reads, in that order.
pub(super) fn of<const N: usize>(expression: &IdedExpr, names: [&str; N]) -> [Shape; N] {
    let variables = names.iter().enumerate();
    let bound = variables.map(|(variable, name)| ((*name).to_owned(), Some((variable, AccessPath::new()))));
    let mut looking = AccessCollector { shapes: names.map(|_| Shape::default()), bound: bound.collect() };
    looking.all(expression);
    looking.shapes
}

struct AccessCollector<const N: usize> {
    shapes: [Shape; N],
    /// The values of names, the innermost last. `None` for a name that is not part of a variable.
    bound: Vec<(String, Option<(usize, AccessPath)>)>,
}

// === impl Shape ===

impl Shape {
    /// The shape of a value that is read completely.
    pub(super) const fn whole() -> Self {
        Self { whole: true, keys: true, fields: BTreeMap::new(), items: None }
    }

    /// Adds the parts of another shape.
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

    /// How a field is read that the expression calls `name`.
    pub(super) fn field(&self, name: &str) -> ValueAccess<'_> {
        if self.whole {
            return ValueAccess::Into(self);
        }
        match self.fields.get(name) {
            Some(shape) => ValueAccess::Into(shape),
            None if self.keys => ValueAccess::Presence,
            None => ValueAccess::Away,
        }
    }

    /// How the elements are read.
    pub(super) fn items(&self) -> ValueAccess<'_> {
        if self.whole {
            return ValueAccess::Into(self);
        }
        self.items.as_deref().map_or(ValueAccess::Presence, ValueAccess::Into)
    }

    fn at(&mut self, way: &[Step]) -> &mut Self {
        way.iter().fold(self, |shape, step| match step {
            Step::Field(name) => shape.fields.entry(name.clone()).or_default(),
            Step::Item => shape.items.get_or_insert_default(),
        })
    }
}

// === impl AccessCollector ===

impl<const N: usize> AccessCollector<N> {
    /// Handles an expression whose value is used in an unknown way, so that all of it counts as read.
    fn all(&mut self, expression: &IdedExpr) {
        if let Some((variable, way)) = self.denoted_part(expression) {
            self.shapes[variable].at(&way).whole = true;
        }
    }

    /// Returns the part of a variable that the expression denotes, if it denotes one. Reading that part is not recorded yet.
    fn denoted_part(&mut self, expression: &IdedExpr) -> Option<(usize, AccessPath)> {
        match &expression.expr {
            Expr::Ident(name) => {
                self.bound.iter().rev().find(|(bound, _)| bound == name).and_then(|(_, way)| way.clone())
            }
            Expr::Select(select) => {
                let (variable, mut way) = self.denoted_part(&select.operand)?;
                way.push(Step::Field(select.field.clone()));
                // The shape of the parent records that the presence of the field is read.
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
                let range = self.denoted_part(&fold.iter_range);
                let item = range.map(|(variable, mut way)| {
                    // A loop over a map runs over its keys, also if it reads nothing of the entries.
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

    fn index(&mut self, operand: &IdedExpr, index: &IdedExpr) -> Option<(usize, AccessPath)> {
        let step = match &index.expr {
            Expr::Literal(LiteralValue::Int(_)) => Step::Item,
            Expr::Literal(LiteralValue::String(name)) => Step::Field(name.inner().to_owned()),
            _ => {
                self.all(operand);
                self.all(index);
                return None;
            }
        };
        let (variable, mut way) = self.denoted_part(operand)?;
        way.push(step);
        self.shapes[variable].at(&way);
        Some((variable, way))
    }

    fn keys(&mut self, operand: &IdedExpr) {
        if let Some((variable, way)) = self.denoted_part(operand) {
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
    use super::{super::Program, Shape, of};

    /// A shape as text: `*` is everything, `#` the names of the fields.
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
