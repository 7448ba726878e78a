; Blocks that are stacked on a table by one hand.
(define (domain blocksworld)
  (:requirements :strips :typing)
  (:types block)
  (:predicates
    (on ?above ?below - block)
    (on-table ?b - block)
    (clear ?b - block)
    (held ?b - block)
    (hand-empty))

  (:action pick-up
    :parameters (?b - block)
    :precondition (and (hand-empty) (on-table ?b) (clear ?b))
    :effect (and (held ?b) (not (hand-empty)) (not (on-table ?b)) (not (clear ?b))))

  (:action put-down
    :parameters (?b - block)
    :precondition (held ?b)
    :effect (and (hand-empty) (on-table ?b) (clear ?b) (not (held ?b))))

  (:action unstack
    :parameters (?b ?below - block)
    :precondition (and (hand-empty) (on ?b ?below) (clear ?b))
    :effect (and (held ?b) (clear ?below) (not (hand-empty)) (not (on ?b ?below)) (not (clear ?b))))

  (:action stack
    :parameters (?b ?below - block)
    :precondition (and (held ?b) (clear ?below))
    :effect (and (hand-empty) (on ?b ?below) (clear ?b) (not (held ?b)) (not (clear ?below)))))
