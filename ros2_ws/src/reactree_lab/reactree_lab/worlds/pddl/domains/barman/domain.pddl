; Drinks and shaken cocktails of two ingredients are served in shot glasses, with two hands.
(define (domain barman)
  (:requirements :strips :typing)
  (:types hand level beverage dispenser container - object
          ingredient cocktail - beverage
          shot shaker - container)
  (:predicates
    (on-table ?c - container)
    (holding ?h - hand ?c - container)
    (hand-empty ?h - hand)
    (empty ?c - container)
    (clean ?c - container)
    (used ?c - container ?b - beverage)
    (contains ?c - container ?b - beverage)
    (dispenses ?d - dispenser ?i - ingredient)
    (first-part ?c - cocktail ?i - ingredient)
    (second-part ?c - cocktail ?i - ingredient)
    (unshaken ?s - shaker)
    (shaken ?s - shaker)
    (level-of ?s - shaker ?l - level)
    (none ?l - level)
    (next ?l ?more - level))

  (:action grasp
    :parameters (?h - hand ?c - container)
    :precondition (and (on-table ?c) (hand-empty ?h))
    :effect (and (holding ?h ?c) (not (on-table ?c)) (not (hand-empty ?h))))

  (:action leave
    :parameters (?h - hand ?c - container)
    :precondition (holding ?h ?c)
    :effect (and (on-table ?c) (hand-empty ?h) (not (holding ?h ?c))))

  (:action fill
    :parameters (?s - shot ?i - ingredient ?h ?other - hand ?d - dispenser)
    :precondition (and (holding ?h ?s) (hand-empty ?other) (dispenses ?d ?i) (empty ?s) (clean ?s))
    :effect (and (contains ?s ?i) (used ?s ?i) (not (empty ?s)) (not (clean ?s))))

  (:action refill
    :parameters (?s - shot ?i - ingredient ?h ?other - hand ?d - dispenser)
    :precondition (and (holding ?h ?s) (hand-empty ?other) (dispenses ?d ?i) (empty ?s) (used ?s ?i))
    :effect (and (contains ?s ?i) (not (empty ?s))))

  (:action empty-shot
    :parameters (?h - hand ?s - shot ?b - beverage)
    :precondition (and (holding ?h ?s) (contains ?s ?b))
    :effect (and (empty ?s) (not (contains ?s ?b))))

  (:action clean-shot
    :parameters (?s - shot ?b - beverage ?h ?other - hand)
    :precondition (and (holding ?h ?s) (hand-empty ?other) (empty ?s) (used ?s ?b))
    :effect (and (clean ?s) (not (used ?s ?b))))

  (:action pour-into-clean-shaker
    :parameters (?s - shot ?i - ingredient ?k - shaker ?h - hand ?l ?more - level)
    :precondition (and (holding ?h ?s) (contains ?s ?i) (empty ?k) (clean ?k) (level-of ?k ?l) (next ?l ?more))
    :effect (and (contains ?k ?i) (unshaken ?k) (level-of ?k ?more) (empty ?s)
                 (not (contains ?s ?i)) (not (empty ?k)) (not (clean ?k)) (not (level-of ?k ?l))))

  (:action pour-into-used-shaker
    :parameters (?s - shot ?i - ingredient ?k - shaker ?h - hand ?l ?more - level)
    :precondition (and (holding ?h ?s) (contains ?s ?i) (unshaken ?k) (level-of ?k ?l) (next ?l ?more))
    :effect (and (contains ?k ?i) (level-of ?k ?more) (empty ?s) (not (contains ?s ?i)) (not (level-of ?k ?l))))

  (:action shake
    :parameters (?c - cocktail ?i ?j - ingredient ?k - shaker ?h ?other - hand)
    :precondition (and (holding ?h ?k) (hand-empty ?other) (contains ?k ?i) (contains ?k ?j)
                       (first-part ?c ?i) (second-part ?c ?j) (unshaken ?k))
    :effect (and (shaken ?k) (contains ?k ?c) (not (unshaken ?k)) (not (contains ?k ?i)) (not (contains ?k ?j))))

  (:action serve
    :parameters (?b - beverage ?s - shot ?h - hand ?k - shaker ?l ?less - level)
    :precondition (and (holding ?h ?k) (shaken ?k) (empty ?s) (clean ?s) (contains ?k ?b)
                       (level-of ?k ?l) (next ?less ?l))
    :effect (and (contains ?s ?b) (used ?s ?b) (level-of ?k ?less)
                 (not (empty ?s)) (not (clean ?s)) (not (level-of ?k ?l))))

  (:action empty-shaker
    :parameters (?h - hand ?k - shaker ?c - cocktail ?l ?zero - level)
    :precondition (and (holding ?h ?k) (contains ?k ?c) (shaken ?k) (level-of ?k ?l) (none ?zero))
    :effect (and (empty ?k) (level-of ?k ?zero) (not (shaken ?k)) (not (contains ?k ?c)) (not (level-of ?k ?l))))

  (:action clean-shaker
    :parameters (?h ?other - hand ?k - shaker)
    :precondition (and (holding ?h ?k) (hand-empty ?other) (empty ?k))
    :effect (clean ?k)))
