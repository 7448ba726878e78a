; A robot with grippers carries balls from room to room.
(define (domain gripper)
  (:requirements :strips :typing)
  (:types room ball gripper)
  (:predicates
    (door ?from ?to - room)
    (robot-in ?r - room)
    (in ?b - ball ?r - room)
    (free ?g - gripper)
    (holds ?g - gripper ?b - ball))

  (:action move
    :parameters (?from ?to - room)
    :precondition (and (robot-in ?from) (door ?from ?to))
    :effect (and (robot-in ?to) (not (robot-in ?from))))

  (:action pick
    :parameters (?b - ball ?r - room ?g - gripper)
    :precondition (and (robot-in ?r) (in ?b ?r) (free ?g))
    :effect (and (holds ?g ?b) (not (in ?b ?r)) (not (free ?g))))

  (:action drop
    :parameters (?b - ball ?r - room ?g - gripper)
    :precondition (and (robot-in ?r) (holds ?g ?b))
    :effect (and (in ?b ?r) (free ?g) (not (holds ?g ?b)))))
