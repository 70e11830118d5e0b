//! Questions and answers: who asked finds the answer whole, and has read it before the next.

use super::{Checked, RACE, explore, must_be_rejected};
use crate::atomic::Ordering;
use crate::question::{CORRECT, Orders, Question};
use loom::sync::Arc;
use loom::thread;

/// Asks, and asks again when the first question was answered, or gives up waiting for that.
fn asked_twice(orders: &'static Orders, is_patient: bool) {
    let shared = Arc::new((Question::new(), Checked::new(0)));
    let answering = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (question, answer) = &*shared;
            loop {
                if let Some(number) = question.next() {
                    answer.write(|answer| *answer = number);
                    question.answer_by(number, orders);
                    if number == 2 {
                        return;
                    }
                }
                thread::yield_now();
            }
        })
    };
    let (question, answer) = &*shared;
    for is_awaited in [is_patient, true] {
        let number = question.ask_by(orders);
        while is_awaited && !question.is_answered(number) {
            thread::yield_now();
        }
        if is_awaited {
            answer.read(|answer| assert_eq!(*answer, number, "the answer to another question"));
        }
    }
    answering.join().unwrap();
}

#[test]
fn an_answer_is_whole_and_belongs_to_its_question() {
    explore(|| asked_twice(&CORRECT, true));
}

#[test]
fn who_gave_up_waiting_gets_the_answer_to_the_next_question() {
    explore(|| asked_twice(&CORRECT, false));
}

#[test]
fn broken_saying_relaxed_that_it_is_answered_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { answer: Ordering::Relaxed, ..CORRECT };
        asked_twice(&ORDERS, true);
    });
}

#[test]
fn broken_asking_relaxed_is_rejected() {
    must_be_rejected(RACE, || {
        const ORDERS: Orders = Orders { ask: Ordering::Relaxed, ..CORRECT };
        asked_twice(&ORDERS, true);
    });
}
