; Flat wheels of a car are changed for spare ones, with tools from its boot.
(define (domain tyreworld)
  (:requirements :strips :typing)
  (:types thing container hub - object
          tool wheel nuts - thing)
  (:constants wrench jack pump - tool)
  (:predicates
    (open ?b - container)
    (closed ?b - container)
    (in ?t - thing ?b - container)
    (have ?t - thing)
    (tight ?n - nuts ?h - hub)
    (loose ?n - nuts ?h - hub)
    (fastened ?h - hub)
    (unfastened ?h - hub)
    (on-ground ?h - hub)
    (jacked-up ?h - hub)
    (bare ?h - hub)
    (on ?w - wheel ?h - hub)
    (intact ?w - wheel)
    (flat ?w - wheel)
    (inflated ?w - wheel))

  (:action open-boot
    :parameters (?b - container)
    :precondition (closed ?b)
    :effect (and (open ?b) (not (closed ?b))))

  (:action close-boot
    :parameters (?b - container)
    :precondition (open ?b)
    :effect (and (closed ?b) (not (open ?b))))

  (:action fetch
    :parameters (?t - thing ?b - container)
    :precondition (and (open ?b) (in ?t ?b))
    :effect (and (have ?t) (not (in ?t ?b))))

  (:action put-away
    :parameters (?t - thing ?b - container)
    :precondition (and (open ?b) (have ?t))
    :effect (and (in ?t ?b) (not (have ?t))))

  (:action loosen
    :parameters (?n - nuts ?h - hub)
    :precondition (and (have wrench) (tight ?n ?h) (on-ground ?h))
    :effect (and (loose ?n ?h) (not (tight ?n ?h))))

  (:action tighten
    :parameters (?n - nuts ?h - hub)
    :precondition (and (have wrench) (loose ?n ?h) (on-ground ?h))
    :effect (and (tight ?n ?h) (not (loose ?n ?h))))

  (:action jack-up
    :parameters (?h - hub)
    :precondition (and (have jack) (on-ground ?h))
    :effect (and (jacked-up ?h) (not (on-ground ?h)) (not (have jack))))

  (:action jack-down
    :parameters (?h - hub)
    :precondition (jacked-up ?h)
    :effect (and (on-ground ?h) (have jack) (not (jacked-up ?h))))

  (:action undo
    :parameters (?n - nuts ?h - hub)
    :precondition (and (have wrench) (jacked-up ?h) (fastened ?h) (loose ?n ?h))
    :effect (and (have ?n) (unfastened ?h) (not (fastened ?h)) (not (loose ?n ?h))))

  (:action do-up
    :parameters (?n - nuts ?h - hub)
    :precondition (and (have wrench) (jacked-up ?h) (unfastened ?h) (have ?n))
    :effect (and (loose ?n ?h) (fastened ?h) (not (unfastened ?h)) (not (have ?n))))

  (:action remove-wheel
    :parameters (?w - wheel ?h - hub)
    :precondition (and (jacked-up ?h) (unfastened ?h) (on ?w ?h))
    :effect (and (have ?w) (bare ?h) (not (on ?w ?h))))

  (:action put-on-wheel
    :parameters (?w - wheel ?h - hub)
    :precondition (and (jacked-up ?h) (unfastened ?h) (bare ?h) (have ?w))
    :effect (and (on ?w ?h) (not (bare ?h)) (not (have ?w))))

  (:action inflate
    :parameters (?w - wheel)
    :precondition (and (have pump) (intact ?w) (flat ?w))
    :effect (and (inflated ?w) (not (flat ?w)))))
