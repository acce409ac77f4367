# The models of doc/bound-recipes.md, for examples/orms.pl: ruby bound.rb MODELS URL
require "active_record"

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end

ActiveRecord::Base.establish_connection(ARGV[1])
load ARGV[0]
puts "columns: #{Post.column_names.join(' ')}"
puts "with_counts: #{Post.with_counts.order(:id).map { |post| [post.id, post.comments_count] }}"
Comment.create!(post: Post.find(2), body: "new")
puts "one: #{Post.find(2).comments_count}"
