//! Rewrites a program so that it is metered wherever it could run or grow without end.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    ops::Math,
    path::{Part, Path},
};

use super::natives::{MUL, STEP, VALUE, WHOLE};

/// Name of a variable that no program can have.
const OPERAND: &str = "$!operand";

/// Returns a definition whose calls are steps: recursion is the only way to repeat something that
/// is not an iteration.
pub(super) fn metered(def: Def<&str>) -> Def<&str> {
    let body = pipe(Term::Call(STEP, Vec::new()), rewritten(def.body));
    Def { body, ..def }
}

/// Returns a term in which iterations, and operations that make values, are followed by a meter.
fn rewritten(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Recurse => then(Term::Recurse, STEP),
        Term::Str(format, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(term) => StrPart::Term(rewritten(term)),
                other => other,
            });
            then(Term::Str(format, parts.collect()), VALUE)
        }
        Term::Arr(term) => then(Term::Arr(term.map(boxed)), WHOLE),
        Term::Obj(members) => {
            let members = members.into_iter();
            let members = members.map(|(key, value)| (rewritten(key), value.map(rewritten)));
            then(Term::Obj(members.collect()), WHOLE)
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, op, right) => operation(rewritten(*left), op, rewritten(*right)),
        Term::Label(name, term) => Term::Label(name, boxed(term)),
        Term::Fold(name, source, pattern, terms) => Term::Fold(
            name,
            boxed(source),
            rewritten_pattern(pattern),
            terms.into_iter().map(rewritten).collect(),
        ),
        Term::TryCatch(term, catch) => Term::TryCatch(boxed(term), catch.map(boxed)),
        Term::IfThenElse(cases, otherwise) => Term::IfThenElse(
            cases.into_iter().map(|(when, then)| (rewritten(when), rewritten(then))).collect(),
            otherwise.map(boxed),
        ),
        Term::Def(defs, term) => Term::Def(defs.into_iter().map(metered).collect(), boxed(term)),
        Term::Call(name, arguments) => {
            let arguments: Vec<_> = arguments.into_iter().map(rewritten).collect();
            // Native, and the only one that makes more values than its input has.
            if name == "range" && arguments.len() == 3 {
                return then(Term::Call(name, arguments), STEP);
            }
            Term::Call(name, arguments)
        }
        Term::Path(term, Path(parts)) => {
            let iterates = parts.iter().any(|(part, _)| matches!(part, Part::Range(None, None)));
            let parts = parts.into_iter().map(|(part, option)| {
                let part = match part {
                    Part::Index(term) => Part::Index(rewritten(term)),
                    Part::Range(from, to) => Part::Range(from.map(rewritten), to.map(rewritten)),
                };
                (part, option)
            });
            let path = Term::Path(boxed(term), Path(parts.collect()));
            if iterates { then(path, STEP) } else { path }
        }
        Term::Id | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
    }
}

fn operation<'p>(
    left: Term<&'p str>,
    op: BinaryOp<&'p str>,
    right: Term<&'p str>,
) -> Term<&'p str> {
    match op {
        BinaryOp::Math(Math::Mul) => then(Term::Call(MUL, vec![left, right]), VALUE),
        BinaryOp::Math(_) => then(binary(left, op, right), VALUE),
        // `l *= r` is `r as $x | l |= . * $x`.
        BinaryOp::UpdateMath(Math::Mul) => {
            let product = Term::Call(MUL, vec![Term::Id, Term::Var(OPERAND)]);
            let update = binary(left, BinaryOp::Update, then(product, VALUE));
            let bind = BinaryOp::Pipe(Some(Pattern::Var(OPERAND)));
            then(binary(right, bind, update), WHOLE)
        }
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            then(binary(left, op, right), WHOLE)
        }
        BinaryOp::Pipe(pattern) => {
            binary(left, BinaryOp::Pipe(pattern.map(rewritten_pattern)), right)
        }
        _ => binary(left, op, right),
    }
}

fn rewritten_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(patterns) => {
            Pattern::Arr(patterns.into_iter().map(rewritten_pattern).collect())
        }
        Pattern::Obj(members) => {
            let members = members.into_iter();
            let members =
                members.map(|(key, pattern)| (rewritten(key), rewritten_pattern(pattern)));
            Pattern::Obj(members.collect())
        }
    }
}

#[expect(clippy::boxed_local, reason = "the terms of the parser are boxed")]
fn boxed(term: Box<Term<&str>>) -> Box<Term<&str>> {
    Box::new(rewritten(*term))
}

fn then<'p>(term: Term<&'p str>, native: &'static str) -> Term<&'p str> {
    pipe(term, Term::Call(native, Vec::new()))
}

fn pipe<'p>(left: Term<&'p str>, right: Term<&'p str>) -> Term<&'p str> {
    binary(left, BinaryOp::Pipe(None), right)
}

fn binary<'p>(left: Term<&'p str>, op: BinaryOp<&'p str>, right: Term<&'p str>) -> Term<&'p str> {
    Term::BinOp(Box::new(left), op, Box::new(right))
}
